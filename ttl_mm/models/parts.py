"""Registers what configs can name of this package; the registry imports it when it needs a name."""

from ttl_mm.models import adapted_backbone, algorithm, head, preprocessor, pretrained_backbone

__all__ = ['adapted_backbone', 'algorithm', 'head', 'preprocessor', 'pretrained_backbone']
