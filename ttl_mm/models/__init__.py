"""Loss, head and algorithm of the truncated triplet method; backbones from a file.

Names are imported when they are asked for: the loss needs torch alone, no package of OpenMMLab.
What configs can name is registered by ``parts``, which the registry imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULES = {
    'AdaptedBackbone': 'adapted_backbone',
    'BandsPreprocessor': 'preprocessor',
    'PretrainedBackbone': 'pretrained_backbone',
    'TTLAlgorithm': 'algorithm',
    'TruncatedTripletHead': 'head',
    'deputy_ranks': 'losses',
    'get_model': 'zoo_models',
    'truncated_triplet_loss': 'losses',
}


def __getattr__(name: str) -> Any:
    """Import the module that has the name; it is looked up here only the first time."""
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    found = getattr(import_module(f'{__name__}.{_MODULES[name]}'), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
