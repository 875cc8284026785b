"""Loss, head and algorithm of the truncated triplet method; backbones from a file."""

# ruff: noqa: E402  (mmpretrain is imported quietly before our parts)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.compat.quiet_imports import import_quietly  # isort: skip

import_quietly('mmpretrain.models')

from ttl_mm.models.adapted_backbone import AdaptedBackbone
from ttl_mm.models.algorithm import TTLAlgorithm
from ttl_mm.models.head import TruncatedTripletHead
from ttl_mm.models.losses import deputy_ranks, truncated_triplet_loss
from ttl_mm.models.preprocessor import BandsPreprocessor
from ttl_mm.models.pretrained_backbone import PretrainedBackbone
from ttl_mm.models.zoo_models import get_model

__all__ = [
    'AdaptedBackbone',
    'BandsPreprocessor',
    'PretrainedBackbone',
    'TTLAlgorithm',
    'TruncatedTripletHead',
    'deputy_ranks',
    'get_model',
    'truncated_triplet_loss',
]
