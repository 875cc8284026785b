"""What pre-trained weights are used for, one vertical slice each.

A slice has its data, metrics, hooks and checks, ``parts.py``, which registers them (its configs
name that module in ``custom_imports``), and ``command.py``, a subcommand of ``ttl``. No module
outside a slice imports it, so any of them can be removed.
"""
