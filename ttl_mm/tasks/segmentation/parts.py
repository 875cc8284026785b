"""Registers the parts that segmentation configs name; they list it in ``custom_imports``."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.segmentation import fcn, images, mean_iou, transforms

__all__ = ['fcn', 'images', 'mean_iou', 'transforms']
