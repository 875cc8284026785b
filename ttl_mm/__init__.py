"""Truncated-triplet self-supervised pre-training for OpenMMLab."""

from ttl_mm.version import __version__

__all__ = ['__version__', 'get_model', 'pretrain']


def __getattr__(name: str):
    """Import what needs torch only when it is asked for, so that ``import ttl_mm`` is quick."""
    if name == 'get_model':
        from ttl_mm.models import get_model

        return get_model
    if name == 'pretrain':
        from ttl_mm.pretraining import pretrain

        return pretrain
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
