"""Makes the archived mmselfsup 1.0.0 usable beside mmpretrain and mmdet, and registers our parts.

A config imports it with ``custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])`` and
then uses ``type='mmselfsup.RotationPred'``, or ``default_scope = 'mmselfsup'``. The truncated
triplet method is registered in that scope too.
"""

# ruff: noqa: E402  (mmselfsup can be imported only after import_mmselfsup)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.compat.mmselfsup_import import import_mmselfsup

import_mmselfsup()

from mmselfsup.registry import MODELS

from ttl_mm.models import TruncatedTripletHead, TTLAlgorithm
from ttl_mm.tasks.mmselfsup import cluster_hook, cluster_loss, odc, transforms

# They work with mmselfsup's data preprocessor as well: it returns a tuple (views, samples) where
# mmpretrain's returns a dict, and mmengine passes either to forward().
for module in (TruncatedTripletHead, TTLAlgorithm):
    MODELS.register_module(module=module, force=True)

__all__ = ['cluster_hook', 'cluster_loss', 'odc', 'transforms']
