"""Registers the parts that detection configs name; they list it in ``custom_imports``."""

# ruff: noqa: E402  (mmdet must be imported before our parts)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.detection.requirements import require_detection

require_detection()

from ttl_mm.tasks.detection import (
    images,
    precise_bn_hook,
    render_hook,
    res5,
    voc_boxes,
    voc_metric,
)

__all__ = ['images', 'precise_bn_hook', 'render_hook', 'res5', 'voc_boxes', 'voc_metric']
