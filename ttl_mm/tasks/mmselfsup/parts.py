"""The archived mmselfsup 1.0.0 beside mmpretrain and mmdet. Importing this module makes it usable.

A config asks for it with ``custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])`` and
then says ``type='mmselfsup.RotationPred'``, or ``default_scope = 'mmselfsup'``. The truncated
triplet method is registered there too.
"""

# ruff: noqa: E402  (what imports mmselfsup comes after the bridge)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.compat.mmselfsup_import import import_mmselfsup

import_mmselfsup()

from mmselfsup.registry import MODELS

from ttl_mm.models import TruncatedTripletHead, TTLAlgorithm
from ttl_mm.tasks.mmselfsup.cluster_hook import ClusterHook
from ttl_mm.tasks.mmselfsup.cluster_loss import ClusterLoss
from ttl_mm.tasks.mmselfsup.odc import ODCHook, ODCMemory
from ttl_mm.tasks.mmselfsup.transforms import PackSelfSupViews, PatchesWithLabels

# They take mmselfsup's data preprocessor and samples as they are: it returns (views, samples) where
# mmpretrain's returns a dict of the two, and mmengine passes either on to forward().
for module in (TruncatedTripletHead, TTLAlgorithm):
    MODELS.register_module(module=module, force=True)

__all__ = [
    'ClusterHook',
    'ClusterLoss',
    'ODCHook',
    'ODCMemory',
    'PackSelfSupViews',
    'PatchesWithLabels',
]
