"""What a detector reaches: COCO's and VOC's average precision, and its worst images."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from ttl_mm.tasks.detection.annotated import Annotated
from ttl_mm.tasks.detection.coco_file import found_as_coco, truth_as_coco
from ttl_mm.tasks.detection.detector import Found
from ttl_mm.tasks.detection.voc_ap import AT50, ImageResult, box_iou, evaluate_voc

COCO_FIGURES = ('AP', 'AP50', 'AP75', 'AP small', 'AP medium', 'AP large')
SEEN = 0.3  # score from which on a box counts as said, in pictures and in the worst images
HIT = 0.5  # overlap of a box that is right


def image_results(
    images: Sequence[Annotated], found: Sequence[Found], classes: Sequence[str]
) -> list[ImageResult]:
    """Truth and detections side by side."""
    return [
        ImageResult(
            boxes=result.boxes.reshape(-1, 4), scores=result.scores, labels=result.labels,
            true_boxes=np.array([t.box for t in image.things], float).reshape(-1, 4),
            true_labels=np.array([classes.index(t.name) for t in image.things], int),
            difficult=np.array([t.hard or t.crowd for t in image.things], bool),
        )
        for image, result in zip(images, found)
    ]  # fmt: skip


def measure(
    images: Sequence[Annotated], found: Sequence[Found], classes: Sequence[str]
) -> dict[str, Any]:
    """All figures, from 0 to 1: of boxes, of masks where there are any, and for every class."""
    figures, per_class = evaluate_voc(image_results(images, found, classes), classes)
    result: dict[str, Any] = {
        'VOC boxes': {name: figures[name] for name in ('AP', 'AP50', 'AP75')},
        'COCO boxes': coco_figures(images, found, classes, 'bbox'),
        'classes': {
            name: {
                'objects': r.objects, 'VOC AP50': float(r.voc[AT50]),
                'COCO AP': float(r.coco.mean()),
            }
            for name, r in per_class.items() if r.objects
        },
    }  # fmt: skip
    shapes = all(t.shape for image in images for t in image.things)
    if shapes and any(r.masks is not None for r in found):
        result['COCO masks'] = coco_figures(images, found, classes, 'segm')
    return result


def coco_figures(
    images: Sequence[Annotated], found: Sequence[Found], classes: Sequence[str], kind: str
) -> dict[str, float | None]:
    """The six figures of pycocotools; None where there are no objects of a size."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    names, sizes = [str(i.path) for i in images], [(i.width, i.height) for i in images]
    truth, said = COCO(), found_as_coco(names, sizes, found, classes)
    if not said['annotations']:
        return dict.fromkeys(COCO_FIGURES, 0.0)
    with redirect_stdout(io.StringIO()):  # it prints tables of its own
        truth.dataset = truth_as_coco(images, classes)
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(said['annotations']), kind)
        _ignore_hard(evaluation)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    values = (float(v) for v in evaluation.stats[: len(COCO_FIGURES)])
    return {k: None if v < 0 else v for k, v in zip(COCO_FIGURES, values)}


def _ignore_hard(evaluation: Any) -> None:
    """Let objects with 'ignore' be neither hits nor mistakes: pycocotools overwrites it."""
    hard = {a['id'] for a in evaluation.cocoGt.dataset['annotations'] if a['ignore']}
    prepare = evaluation._prepare

    def prepared() -> None:
        prepare()
        for objects in evaluation._gts.values():
            for thing in objects:
                thing['ignore'] = thing['id'] in hard

    evaluation._prepare = prepared


def mistakes(result: ImageResult) -> int:
    """Objects that were missed, and boxes above :data:`SEEN` that are none."""
    said = result.scores >= SEEN
    boxes, labels = result.boxes[said], result.labels[said]
    right = box_iou(boxes, result.true_boxes) >= HIT
    right &= labels[:, None] == result.true_labels[None]
    missed = ~right.any(axis=0) & ~result.difficult
    return int(missed.sum() + (~right.any(axis=1)).sum())


def worst_images(results: Sequence[ImageResult], count: int) -> list[int]:
    """Numbers of the images with most mistakes, the worst first."""
    errors = np.array([mistakes(result) for result in results])
    order = np.argsort(-errors, kind='stable')[:count]
    return [int(i) for i in order if errors[i]]
