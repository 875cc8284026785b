"""Average precision on PASCAL VOC, by two protocols at the IoU thresholds 0.50, 0.55 ... 0.95.

- ``AP``, ``AP50``, ``AP75``: VOC2007. A detection is matched to the object it overlaps most, and
  precision is sampled at 11 recalls. AP is the mean over the ten thresholds. detectron2 prints
  these figures for VOC, so MoCo and the paper report them.
- ``coco101_AP``, ``coco101_AP50``, ``coco101_AP75``: COCO. A detection is matched to the best
  object that is not matched yet, and precision is sampled at 101 recalls. These figures are not
  comparable with the former.

In both, difficult objects need not be detected, and detecting them is no mistake. An IoU equal to
the threshold is a match, as in the VOC devkit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ttl_mm.errors import UserError

# Literals: int(100 * t) of a computed 0.9 may be 89, and 0.7 + 0.05 may miss a box at IoU 0.75.
IOU_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
AT50, AT75 = IOU_THRESHOLDS.index(0.5), IOU_THRESHOLDS.index(0.75)
# Computed as in the reference implementations: 3 * 0.1 is slightly more than 0.3, so that 3 of 10
# objects do not reach the fourth point, there and here.
VOC_RECALLS = np.arange(11) * 0.1
COCO_RECALLS = np.linspace(0.0, 1.0, 101)
Matches = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ImageResult:
    """One image. Boxes are extents (x1, y1, x2, y2): their width is x2 - x1."""

    boxes: np.ndarray  # (D, 4)
    scores: np.ndarray  # (D,)
    labels: np.ndarray  # (D,)
    true_boxes: np.ndarray  # (G, 4)
    true_labels: np.ndarray  # (G,)
    difficult: np.ndarray  # (G,) bool


class ClassResult(NamedTuple):
    """One class over all images."""

    objects: int  # without difficult ones
    detections: int
    voc: np.ndarray  # (T,) 11-point AP
    coco: np.ndarray  # (T,) 101-point AP


def box_iou(boxes: np.ndarray, true_boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of every pair of extents: (D, 4), (G, 4) -> (D, G)."""
    low = np.maximum(boxes[:, None, :2], true_boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], true_boxes[None, :, 2:])
    overlap = (high - low).clip(min=0).prod(axis=2)
    areas = ((b[:, 2:] - b[:, :2]).clip(min=0).prod(axis=1) for b in (boxes, true_boxes))
    union = np.add.outer(*areas) - overlap
    return np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)


def match_voc(iou: np.ndarray, difficult: np.ndarray, thresholds: Sequence[float]) -> Matches:
    """VOC's rule: each detection is matched to the object that it overlaps most.

    ``iou`` (D, G) has the detections by falling score; ``difficult`` is (G,). Returns which of the
    detections are right and which are ignored at every threshold, each (T, D). A second detection
    of the same object is wrong.
    """
    best = iou.argmax(axis=1)  # (D,)
    hit = iou.max(axis=1) >= np.reshape(thresholds, (-1, 1))  # (T, D)
    ignored = hit & difficult[best]
    right = np.zeros_like(hit)
    for row, counted in zip(right, hit & ~ignored):
        candidates = np.flatnonzero(counted)
        _, first = np.unique(best[candidates], return_index=True)
        row[candidates[first]] = True
    return right, ignored


def match_coco(iou: np.ndarray, difficult: np.ndarray, thresholds: Sequence[float]) -> Matches:
    """COCO's rule: each detection takes the best object that is not taken by a higher score.

    Arguments and result are those of :func:`match_voc`. A difficult object takes any number of
    detections, but only those that match no other object.
    """
    least = np.asarray(thresholds)  # (T,)
    right = np.zeros((len(least), len(iou)), dtype=bool)
    ignored = right.copy()
    free = np.tile(~difficult, (len(least), 1))  # (T, G)
    on_difficult = np.where(difficult, iou, -1.0).max(axis=1)  # (D,)
    rows = np.arange(len(least))
    for d, overlaps in enumerate(iou):
        available = np.where(free, overlaps, -1.0)  # (T, G)
        best = available.argmax(axis=1)  # (T,)
        right[:, d] = available[rows, best] >= least
        ignored[:, d] = ~right[:, d] & (on_difficult[d] >= least)
        free[rows[right[:, d]], best[right[:, d]]] = False
    return right, ignored


def interpolated_ap(right: np.ndarray, objects: int, recalls: np.ndarray) -> float:
    """Mean over ``recalls`` of the best precision at that recall or a higher one.

    ``right`` (D,) is bool, for the detections that are not ignored, by falling score; ``objects``
    is the number of objects to detect. Recalls that are not reached have precision 0.
    """
    found = np.cumsum(right)
    precision = found / np.arange(1, len(found) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(found / objects, recalls)  # first detection that reaches each recall
    return float(np.append(best, 0.0)[np.minimum(at, len(best))].mean())


def evaluate_class(
    images: Sequence[ImageResult], label: int, thresholds: Sequence[float] = IOU_THRESHOLDS
) -> ClassResult:
    """Both average precisions of one class at every threshold."""
    scores, objects = [], 0
    matches: dict[Callable, list] = {match_voc: [], match_coco: []}
    for image in images:
        of_class, true = image.labels == label, image.true_labels == label
        difficult = image.difficult[true]
        objects += int((~difficult).sum())
        order = np.argsort(-image.scores[of_class], kind='stable')
        scores.append(image.scores[of_class][order])
        iou = box_iou(image.boxes[of_class][order], image.true_boxes[true])
        nothing = np.zeros((2, len(thresholds), len(order)), dtype=bool)  # argmax needs an entry
        for match, found in matches.items():
            found.append(match(iou, difficult, thresholds) if iou.size else nothing)
    ranks = np.argsort(-np.concatenate(scores), kind='stable')
    voc, coco = (
        _ap_per_threshold(np.concatenate(found, axis=2)[..., ranks], objects, recalls)
        for found, recalls in zip(matches.values(), (VOC_RECALLS, COCO_RECALLS))
    )
    return ClassResult(objects, len(ranks), voc, coco)


def _ap_per_threshold(matches: np.ndarray, objects: int, recalls: np.ndarray) -> np.ndarray:
    """AP (T,) of matches (2, T, D), right and ignored; NaN if there is no object to detect."""
    if not objects:
        return np.full(matches.shape[1], np.nan)
    return np.array([interpolated_ap(r[~skip], objects, recalls) for r, skip in zip(*matches)])


def evaluate_voc(
    images: Sequence[ImageResult], classes: Sequence[str]
) -> tuple[dict[str, float], dict[str, ClassResult]]:
    """All figures of this module, and the results per class that they are means of.

    A class without objects is left out of the means.
    """
    per_class = {name: evaluate_class(images, label) for label, name in enumerate(classes)}
    present = [result for result in per_class.values() if result.objects]
    if not present:
        raise UserError(
            f'the {len(images)} images have no object to find, apart from difficult ones: check '
            'that the image list and the annotations belong to the same test set.'
        )
    figures = {}
    for prefix, field in (('', 'voc'), ('coco101_', 'coco')):
        ap = np.mean([getattr(result, field) for result in present], axis=0)  # (T,)
        for name, value in (('AP', ap.mean()), ('AP50', ap[AT50]), ('AP75', ap[AT75])):
            figures[prefix + name] = float(value)
    return figures, per_class
