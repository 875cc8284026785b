"""Images with boxes in memory, whatever files they came from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.datasets.data_report import DataReport
from ttl_mm.errors import UserError, did_you_mean
from ttl_mm.files.image_header import check_size
from ttl_mm.tasks.detection.shapes import shape_fault

OUTSIDE = 2  # pixels by which rounding may move a box beyond the edge of its image


@dataclass(frozen=True)
class Thing:
    """An object: its class, its box as extent (x1, y1, x2, y2), and its shape where it is known."""

    name: str
    box: tuple[float, float, float, float]
    shape: Any = None  # polygons [[x, y, x, y ...] ...] or the run lengths of COCO
    hard: bool = False  # difficult in VOC: trained on, and not counted in a test
    crowd: bool = False  # of COCO: neither


@dataclass(frozen=True)
class Annotated:
    """An image file, its size, and its objects."""

    path: Path
    width: int
    height: int
    things: tuple[Thing, ...] = ()


@dataclass
class Boxes:
    """A dataset: images to train on and images to validate on."""

    kind: str  # 'COCO', 'VOC' or 'YOLO'
    train: list[Annotated]
    val: list[Annotated]
    how: str  # the validation images were chosen
    reports: list[DataReport] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()  # classes that the files name, with objects or without
    unknown: tuple[str, ...] = ()  # classes of validation objects that no training image has

    def split(self, name: str) -> list[Annotated]:
        return {'train': self.train, 'val': self.val}[name]

    @property
    def has_shapes(self) -> bool:
        """Whether every object to train on has one."""
        return all(t.shape for image in self.train for t in image.things if not t.crowd)


def choose_classes(data: Boxes, wanted: Sequence[str] | None) -> None:
    """Set the classes: all with an object to train on, or ``wanted``; other objects are left out.

    Raises:
        UserError: One of ``wanted`` is not in the data.
    """
    present = sorted({t.name for image in data.train for t in image.things})
    known = list(dict.fromkeys([*data.listed, *present]))
    for name in wanted or ():
        if name not in known:
            near = did_you_mean(name, known)
            raise UserError(f'--classes {name}: the data have no class of that name.{near}')
    data.classes = tuple(wanted or [name for name in known if name in present])
    others = {t.name for image in data.val for t in image.things} - {*known}
    data.unknown = tuple(sorted(others))
    data.train, data.val = (
        [_only(image, data.classes) for image in images] for images in (data.train, data.val)
    )


def _only(image: Annotated, classes: Iterable[str]) -> Annotated:
    kept = tuple(thing for thing in image.things if thing.name in classes)
    return Annotated(image.path, image.width, image.height, kept)


def check_boxes(data: Boxes) -> DataReport:
    """What is wrong with the boxes and classes, whatever the format of the files is."""
    report = DataReport()
    objects = {
        split: [(image, thing) for image in data.split(split) for thing in image.things]
        for split in ('train', 'val')
    }
    for split, found in objects.items():
        count = f'images: {len(data.split(split)):,}, objects: {len(found):,}'
        report.counts[f'{split}, {len(data.classes)} classes'] = count
        for image in data.split(split):
            _check_size(report, image)
        for image, thing in found:
            _check_box(report, image, thing)
        for name in data.classes:
            if not any(thing.name == name and not thing.crowd for _, thing in found):
                kind = {'train': 'class without an object to train on',
                        'val': 'class without an object to validate on'}[split]  # fmt: skip
                (report.errors if split == 'train' else report.notes)[kind].append(name)
        if not found:
            report.errors['split without any object'].append(split)
    if data.unknown:
        kind = 'class of validation objects that no training image has'
        report.notes[kind] = list(data.unknown)
    if left := [name for name in data.listed if name not in data.classes]:
        report.notes['class that is left out'] = left
    return report


def _check_size(report: DataReport, image: Annotated) -> None:
    """The size that the annotations name; masks of that size are made of it."""
    try:
        if min(image.width, image.height) < 1:
            raise ValueError(f'{image.width} x {image.height} pixels')
        check_size(image.height, image.width)
    except ValueError as error:
        report.errors['image of an impossible size'].append(f'{image.path.name} ({error})')


def _check_box(report: DataReport, image: Annotated, thing: Thing) -> None:
    x1, y1, x2, y2 = thing.box
    where = f'{image.path.name} {thing.name}'
    if not np.isfinite(thing.box).all():
        report.errors['box that is not finite'].append(where)
    elif x1 >= x2 or y1 >= y2:
        report.errors['box without area'].append(where)
    elif min(x1, y1) < -OUTSIDE or x2 > image.width + OUTSIDE or y2 > image.height + OUTSIDE:
        sizes = f'{x1:g} {y1:g} {x2:g} {y2:g} in {image.width} x {image.height}'
        report.errors['box outside of the image'].append(f'{where} ({sizes})')
    elif thing.shape is not None and (fault := shape_fault(thing.shape, image.width, image.height)):
        report.errors['shape that cannot be drawn'].append(f'{where} ({fault})')
