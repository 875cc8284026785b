"""Loss, head and algorithm of the truncated triplet method."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.models.algorithm import TTLAlgorithm
from ttl_mm.models.flip_features import FlipFeatures
from ttl_mm.models.head import TruncatedTripletHead
from ttl_mm.models.losses import deputy_ranks, truncated_triplet_loss
from ttl_mm.models.pretrained_init import PretrainedBackbone
from ttl_mm.models.res5 import Res5

__all__ = [
    'FlipFeatures',
    'PretrainedBackbone',
    'Res5',
    'TTLAlgorithm',
    'TruncatedTripletHead',
    'deputy_ranks',
    'truncated_triplet_loss',
]
