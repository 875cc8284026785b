"""How well masks agree: intersection over union of every class, and their mean."""

from collections.abc import Sequence

import cv2
import numpy as np
from mmengine.evaluator import BaseMetric

from ttl_mm.registry import METRICS
from ttl_mm.tasks.segmentation.masked import IGNORED


def confusion(truth: np.ndarray, found: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes) counts of pixels, rows by truth; pixels without a class do not count.

    ``found`` is enlarged to ``truth`` where it is smaller.
    """
    if found.shape != truth.shape:
        size = truth.shape[::-1]
        found = cv2.resize(found.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
    known = truth != IGNORED
    pairs = truth[known].astype(int) * classes + found[known].astype(int)
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def intersections(counts: np.ndarray) -> np.ndarray:
    """IoU (classes,) from 0 to 1; NaN for a class that is neither there nor found."""
    hits = np.diag(counts).astype(float)
    unions = counts.sum(0) + counts.sum(1) - hits
    return np.divide(hits, unions, out=np.full(len(hits), np.nan), where=unions > 0)


@METRICS.register_module()
class MeanIoU(BaseMetric):
    """Mean intersection over union of the classes, and the share of correct pixels, in percent."""

    default_prefix = 'segmentation'

    def process(self, data_batch, data_samples: Sequence[dict]) -> None:
        """Count pixels."""
        classes = len(self.dataset_meta['classes'])
        for sample in data_samples:
            truth, found = (sample[key].cpu().numpy() for key in ('mask', 'found'))
            self.results.append(confusion(truth, found, classes))

    def compute_metrics(self, results: list[np.ndarray]) -> dict[str, float]:
        """From 0 to 100."""
        counts = np.sum(results, axis=0)
        correct = np.diag(counts).sum() / max(1, counts.sum())
        return {'mIoU': float(100 * np.nanmean(intersections(counts))), 'pixels': 100 * correct}
