"""Loss, head and algorithm of the truncated triplet method; backbones from a file."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.models.algorithm import TTLAlgorithm
from ttl_mm.models.head import TruncatedTripletHead
from ttl_mm.models.losses import deputy_ranks, truncated_triplet_loss
from ttl_mm.models.pretrained_backbone import PretrainedBackbone
from ttl_mm.models.zoo_models import get_model

__all__ = [
    'PretrainedBackbone',
    'TTLAlgorithm',
    'TruncatedTripletHead',
    'deputy_ranks',
    'get_model',
    'truncated_triplet_loss',
]
