"""Small generated detection datasets: colored rectangles on noise, one color a class."""

import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

SIDE = 96


def draw(rng: np.random.Generator, n_classes: int) -> tuple[np.ndarray, list[tuple[int, list]]]:
    """An image and its objects: class, and box as extent (x1, y1, x2, y2)."""
    image = rng.integers(0, 60, (SIDE, SIDE, 3), dtype=np.uint8)
    objects = []
    for half in range(2):  # one in the left half, one in the right
        label = int(rng.integers(n_classes))
        x = int(rng.integers(2, 10)) + half * SIDE // 2
        y = int(rng.integers(2, 40))
        w, h = (int(v) for v in rng.integers(24, 36, 2))
        image[y : y + h, x : x + w] = np.array([80, 160, 240])[(np.arange(3) + label) % 3]
        objects.append((label, [x, y, x + w, y + h]))
    return image, objects


def write_coco(root: Path, n_train: int, n_val: int, classes: Sequence[str]) -> Path:
    """A COCO folder below ``root`` with boxes and polygons."""
    root = root / 'coco'
    rng = np.random.default_rng(0)
    (root / 'annotations').mkdir(parents=True)
    categories = [dict(id=10 + i, name=name) for i, name in enumerate(classes)]
    for split, count in (('train2017', n_train), ('val2017', n_val)):
        (root / split).mkdir()
        content: dict[str, list] = dict(images=[], annotations=[], categories=categories)
        for i in range(1, count + 1):
            image, objects = draw(rng, len(classes))
            cv2.imwrite(str(root / split / f'{i:06}.jpg'), image)
            content['images'].append(dict(id=i, file_name=f'{i:06}.jpg', width=SIDE, height=SIDE))
            for label, (x1, y1, x2, y2) in objects:
                w, h, polygon = x2 - x1, y2 - y1, [x1, y1, x2, y1, x2, y2, x1, y2]
                ids = dict(id=len(content['annotations']) + 1, image_id=i, category_id=10 + label)
                shape = dict(bbox=[x1, y1, w, h], area=w * h, segmentation=[polygon], iscrowd=0)
                content['annotations'].append(ids | shape)
        (root / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content))
    return root


def write_voc(root: Path, n_train: int, n_test: int, classes, years=('VOC2007',)) -> Path:
    """A VOCdevkit below ``root``; the second object of every image is difficult."""
    root = root / 'VOCdevkit'
    rng = np.random.default_rng(1)
    for year in years:
        folder = root / year
        for part in ('JPEGImages', 'Annotations', 'ImageSets/Main'):
            (folder / part).mkdir(parents=True)
        for split, count in (('trainval', n_train), ('test', n_test)):
            names = [f'{split}{i:03}' for i in range(count)]
            (folder / 'ImageSets/Main' / f'{split}.txt').write_text('\n'.join(names) + '\n')
            for name in names:
                image, objects = draw(rng, len(classes))
                cv2.imwrite(str(folder / 'JPEGImages' / f'{name}.jpg'), image)
                (folder / 'Annotations' / f'{name}.xml').write_text(_xml(objects, classes))
    return root


def _xml(objects: list, classes: Sequence[str]) -> str:
    """Corners of VOC count from 1 and are inclusive."""
    items = ''.join(
        f'<object><name>{classes[label]}</name><difficult>{i % 2}</difficult><bndbox>'
        f'<xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax>'
        '</bndbox></object>'
        for i, (label, (x1, y1, x2, y2)) in enumerate(objects)
    )
    size = f'<size><width>{SIDE}</width><height>{SIDE}</height><depth>3</depth></size>'
    return f'<annotation>{size}{items}</annotation>'
