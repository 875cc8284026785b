"""``ttl doctor --train``: does a recipe train on this machine as it does on ours?

1. :mod:`~ttl_mm.selftest.small_recipe` cuts the recipe down to ten iterations.
2. :mod:`~ttl_mm.selftest.ranks` runs it on all devices, through ``launch.train`` as a user would:
   in one go, with an infinite gradient, interrupted and resumed. On a CPU the ranks use gloo.
3. :mod:`~ttl_mm.selftest.part_checks` gives :mod:`~ttl_mm.selftest.checks` what the ranks wrote.
"""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.selftest.checks import FAIL, NOT_APPLICABLE, PASS, Check
from ttl_mm.selftest.run import Report, run_selftest

__all__ = ['FAIL', 'NOT_APPLICABLE', 'PASS', 'Check', 'Report', 'run_selftest']
