"""``python -m ttl_mm`` is the ``ttl`` command."""

from ttl_mm.cli import main

raise SystemExit(main())
