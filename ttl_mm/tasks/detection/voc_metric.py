"""The evaluator of the VOC configs: :mod:`ttl_mm.tasks.detection.voc_ap` on mmdet's samples."""

from collections.abc import Sequence

import numpy as np
from mmengine.evaluator import BaseMetric
from mmengine.logging import MMLogger

from ttl_mm.registry import METRICS
from ttl_mm.tasks.detection.voc_ap import AT50, AT75, ClassResult, ImageResult, evaluate_voc

FAR_PIXEL = np.array([0.0, 0.0, 1.0, 1.0])  # from inclusive corners to extents


def class_table(figures: dict[str, float], per_class: dict[str, ClassResult]) -> str:
    """A table of the figures per class in percent, with the mean in the last line."""
    head = f'{"class":<14}{"objects":>9}{"found":>9}{"AP50":>7}{"AP":>7}{"AP75":>7}{"COCO AP":>9}'
    lines = [head, '-' * len(head)]
    for name, r in per_class.items():
        values = r.voc[AT50], r.voc.mean(), r.voc[AT75], r.coco.mean()
        lines.append(_table_line(name, r.objects, r.detections, *values))
    counts = (sum(r[i] for r in per_class.values()) for i in (0, 1))
    means = (figures[key] for key in ('AP50', 'AP', 'AP75', 'coco101_AP'))
    return '\n'.join([*lines, lines[1], _table_line('mean', *counts, *means)])


def _table_line(name, objects, found, ap50, ap, ap75, coco) -> str:
    percent = (100 * value for value in (ap50, ap, ap75, coco))
    return f'{name:<14}{objects:>9}{found:>9}' + '{:>7.1f}{:>7.1f}{:>7.1f}{:>9.1f}'.format(*percent)


@METRICS.register_module()
class VOCDetectionMetric(BaseMetric):
    """AP, AP50 and AP75 of VOC and of COCO on the samples of mmdet's ``VOCDataset``.

    ``VOCDataset`` gives boxes with inclusive corners, counted from 0: their width is x2 - x1 + 1. A
    model predicts boxes of the kind that it was trained on.

    Args:
        extents: True for a model trained with ``ttl_mm.VOCTrainingBoxes``, whose boxes end at the
            far edge of the last pixel; False for one trained on ``VOCDataset`` as it is.
    """

    default_prefix = 'voc'

    def __init__(self, extents: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.far_edge = 0 * FAR_PIXEL if extents else FAR_PIXEL
        self.true_edge = FAR_PIXEL

    def process(self, data_batch, data_samples: Sequence[dict]) -> None:
        """Keep boxes, scores and labels of each sample, as extents."""
        for sample in data_samples:
            found = sample['pred_instances']
            known = sample['gt_instances'], sample['ignored_instances']  # the latter are difficult
            self.results.append(
                ImageResult(
                    boxes=_numpy(found['bboxes']) + self.far_edge,
                    scores=_numpy(found['scores']),
                    labels=_numpy(found['labels']),
                    true_boxes=np.concatenate([_numpy(k['bboxes']) for k in known])
                    + self.true_edge,
                    true_labels=np.concatenate([_numpy(k['labels']) for k in known]),
                    difficult=np.repeat([False, True], [len(k['labels']) for k in known]),
                )
            )

    def compute_metrics(self, results: list[ImageResult]) -> dict[str, float]:
        """Log the table of classes and return the figures, from 0 to 1."""
        figures, per_class = evaluate_voc(results, self.dataset_meta['classes'])
        MMLogger.get_current_instance().info('\n' + class_table(figures, per_class))
        return figures


@METRICS.register_module()
class BoxMetric(VOCDetectionMetric):
    """The same figures on the samples of :class:`ttl_mm.tasks.detection.images.DetectionImages`.

    All of its boxes are extents.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(extents=True, **kwargs)
        self.true_edge = 0 * FAR_PIXEL


def _numpy(tensor) -> np.ndarray:
    return tensor.cpu().numpy().astype(np.float64)
