"""Truncated-triplet self-supervised pre-training for OpenMMLab."""

__version__ = '0.1.0'


def __getattr__(name: str):
    """Names that need torch are imported when they are asked for."""
    if name == 'get_model':
        from ttl_mm.zoo.models import get_model

        return get_model
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
