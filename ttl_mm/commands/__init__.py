"""The subcommands of ``ttl``, one module each; see :mod:`ttl_mm.cli` for the contract."""
