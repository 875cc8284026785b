"""Registers the parts that detection configs name; they list it in ``custom_imports``."""

# ruff: noqa: E402  (mmdet must be imported before our parts)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.detection.requirements import require_detection

require_detection()

from ttl_mm.tasks.detection.precise_bn_hook import PreciseBNHook
from ttl_mm.tasks.detection.render_hook import RenderPredictionsHook
from ttl_mm.tasks.detection.res5 import Res5
from ttl_mm.tasks.detection.voc_boxes import VOCTrainingBoxes
from ttl_mm.tasks.detection.voc_metric import VOCDetectionMetric

__all__ = [
    'PreciseBNHook',
    'RenderPredictionsHook',
    'Res5',
    'VOCDetectionMetric',
    'VOCTrainingBoxes',
]
