"""Boxes as COCO json: images with what was found, or with the truth."""

from collections.abc import Sequence
from typing import Any

from ttl_mm.tasks.detection.annotated import Annotated
from ttl_mm.tasks.detection.detector import Found


def found_as_coco(
    names: Sequence[str], sizes: Sequence[tuple[int, int]], found: Sequence[Found],
    classes: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Images with their sizes (width, height), categories from 1 on, and boxes with scores."""
    annotations: list[dict[str, Any]] = []
    for number, result in enumerate(found, 1):
        for i, (x1, y1, x2, y2) in enumerate(result.boxes):
            entry: dict[str, Any] = {
                'id': len(annotations) + 1, 'image_id': number,
                'category_id': int(result.labels[i]) + 1,
                'bbox': [round(float(v), 2) for v in (x1, y1, x2 - x1, y2 - y1)],
                'area': round(float((x2 - x1) * (y2 - y1)), 2), 'iscrowd': 0,
                'score': round(float(result.scores[i]), 4),
            }  # fmt: skip
            if result.masks is not None:
                entry['segmentation'] = result.masks[i]
            annotations.append(entry)
    return {
        'images': _images(names, sizes), 'categories': _categories(classes),
        'annotations': annotations,
    }  # fmt: skip


def truth_as_coco(images: Sequence[Annotated], classes: Sequence[str]) -> dict[str, Any]:
    """The objects of a dataset in the form that pycocotools evaluates against."""
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(images, 1):
        for thing in image.things:
            x1, y1, x2, y2 = thing.box
            entry: dict[str, Any] = {
                'id': len(annotations) + 1, 'image_id': number,
                'category_id': classes.index(thing.name) + 1,
                'bbox': [x1, y1, x2 - x1, y2 - y1], 'area': (x2 - x1) * (y2 - y1),
                'iscrowd': int(thing.crowd), 'ignore': int(thing.hard or thing.crowd),
            }  # fmt: skip
            if thing.shape:
                entry['segmentation'] = thing.shape
            annotations.append(entry)
    names, sizes = [str(i.path) for i in images], [(i.width, i.height) for i in images]
    return {
        'images': _images(names, sizes), 'categories': _categories(classes),
        'annotations': annotations,
    }  # fmt: skip


def _images(names: Sequence[str], sizes: Sequence[tuple[int, int]]) -> list[dict]:
    return [
        {'id': number, 'file_name': name, 'width': width, 'height': height}
        for number, (name, (width, height)) in enumerate(zip(names, sizes), 1)
    ]


def _categories(classes: Sequence[str]) -> list[dict]:
    return [{'id': number, 'name': name} for number, name in enumerate(classes, 1)]
