"""Find what is wrong with a VOC or COCO folder before a detector trains on it for a day.

mmdet stops at the first missing file (an annotation when training starts, an image in the middle of
it) and silently skips other problems. These checks report all of them at once.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ttl_mm.datasets.data_report import DataReport
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import ANNOTATIONS, read_bytes, read_text
from ttl_mm.tasks.detection.shapes import shape_fault


def check_voc(folder: Path, list_file: Path, classes: Collection[str]) -> DataReport:
    """Check the images that ``list_file`` names in a ``VOC2007``-like folder.

    Args:
        folder: Holds ``JPEGImages`` and ``Annotations``.
        list_file: One name per line, without a suffix.
        classes: Objects of other classes are ignored.
    """
    lines = _read(list_file, lambda path: read_text(path, ANNOTATIONS).split('\n'))
    names = [name.rstrip('\r') for name in lines if name.strip()]
    return check_voc_names(folder, names, classes, str(list_file))


def check_voc_names(
    folder: Path, names: Sequence[str], classes: Collection[str] | None, title: str
) -> DataReport:
    """The same for names in memory; ``classes`` None counts the objects of every class."""
    images, annotations = (_sizes(folder / part) for part in ('JPEGImages', 'Annotations'))
    report, objects = DataReport(), 0
    for name, count in Counter(names).items():
        if count > 1:
            report.notes['name listed more than once'].append(name)
        _check_file(report, images, f'{name}.jpg')
        if f'{name}.xml' not in annotations:
            report.errors['missing annotation file'].append(f'{name}.xml')
            continue
        try:
            _, found = read_voc(folder / 'Annotations' / f'{name}.xml', classes)
        except (ElementTree.ParseError, ValueError, OSError) as error:
            report.errors['unreadable annotation file'].append(f'{name}.xml ({error})')
            continue
        objects += len(found)
        if not found:
            report.notes['image without objects'].append(f'{name}.jpg')
        for thing in found:
            left, top, right, bottom = thing.corners
            if not (left < right and top < bottom and math.isfinite(right - left + bottom - top)):
                report.errors['box without area'].append(f'{name}.xml {thing.name}')
    _count(report, title, len(names), objects)
    return report


def _count(report: DataReport, path: Path | str, images: int, objects: int) -> None:
    report.counts[str(path)] = f'images: {images:,}, objects: {objects:,}'
    if not objects:
        report.errors['file that lists no object of a known class'].append(str(path))


class VOCObject(NamedTuple):
    """An object as a file describes it."""

    name: str
    corners: tuple[float, ...]  # left, top, right, bottom: pixels from 1 on, all inclusive
    hard: bool


def read_voc(
    path: Path, classes: Collection[str] | None = None
) -> tuple[tuple[int, int] | None, list[VOCObject]]:
    """Width and height, if the file has them, and the objects: the XML elements that mmdet reads.

    Of objects of other classes than ``classes`` nothing but the name is read, as there.

    Raises:
        ValueError: Something is missing or no number; or it is no plain XML.
    """
    text = read_bytes(path)
    if b'<!DOCTYPE' in text or b'<!ENTITY' in text:  # which can make megabytes of a line
        raise ValueError('it defines entities')
    root = ElementTree.fromstring(text)
    sizes = [(int(_text(s, 'width')), int(_text(s, 'height'))) for s in root.findall('size')]
    found = []
    for item in root.findall('object'):
        name = _text(item, 'name')
        if classes is not None and name not in classes:
            continue
        corners = (float(_text(item, f'bndbox/{c}')) for c in ('xmin', 'ymin', 'xmax', 'ymax'))
        hard = (item.findtext('difficult') or '0').strip() == '1'
        found.append(VOCObject(name, tuple(corners), hard))
    return (sizes[0] if sizes else None), found


def _text(element: ElementTree.Element, path: str) -> str:
    if (text := element.findtext(path)) is None:
        raise ValueError(f'<{element.tag}> has no {path}')
    return text


def check_coco(
    annotation_file: Path, image_folder: Path, classes: Collection[str], with_masks: bool = False
) -> DataReport:
    """Check a COCO annotation file and the images that it names.

    Args:
        annotation_file: ``instances_*.json``
        image_folder: Where its ``file_name`` entries are.
        classes: Each must be among the categories of the file.
        with_masks: Whether each object needs a ``segmentation``.
    """
    content = _read(annotation_file, lambda path: read_json(path, ANNOTATIONS))
    try:
        return _check_coco(annotation_file, content, _sizes(image_folder), classes, with_masks)
    except (KeyError, TypeError, ValueError) as error:
        what = f'{error} is missing' if isinstance(error, KeyError) else error
        raise UserError(
            f'{annotation_file} is not a COCO annotation file ({what}): check the path, or '
            'download the file again.'
        ) from error


def _check_coco(
    path: Path, content: Mapping, files: Mapping[str, int], classes: Collection[str], masks: bool
) -> DataReport:
    report, objects = DataReport(), 0
    categories = {c['id']: c['name'] for c in content['categories']}
    for name in sorted(set(classes) - set(categories.values())):
        report.errors['class that is not a category of the file'].append(name)
    images = {image['id']: image['file_name'] for image in content['images']}
    sizes = {image['id']: (image.get('width'), image.get('height')) for image in content['images']}
    for name in images.values():
        if not isinstance(name, str):
            raise TypeError(f'the file name {name!r} is no text')
        _check_file(report, files, name)
    for identity, count in Counter(a['id'] for a in content['annotations']).items():
        if count > 1:
            report.errors['annotation id used more than once'].append(str(identity))
    annotated = set()
    for annotation in content['annotations']:
        where = f'annotation {annotation["id"]}'
        if annotation['image_id'] not in images:
            report.errors['annotation of an image that the file does not list'].append(where)
        elif annotation['category_id'] not in categories:
            report.errors['annotation of a category that the file does not list'].append(where)
        elif categories.get(annotation['category_id']) in classes:
            annotated.add(annotation['image_id'])
            objects += 1
            if not all(math.isfinite(number) for number in annotation['bbox']):
                report.errors['box that is not finite'].append(where)
            elif min(annotation['bbox'][2:]) < 1 or annotation.get('area', 1) <= 0:
                report.notes['box without area'].append(where)
            elif masks and not (shape := annotation.get('segmentation')):
                report.errors['object without a mask'].append(where)
            elif masks and (fault := shape_fault(shape, *sizes[annotation['image_id']])):
                report.errors['shape that cannot be drawn'].append(f'{where} ({fault})')
    if empty := [name for identity, name in images.items() if identity not in annotated]:
        report.notes['image without objects'] = empty
    _count(report, path, len(content['images']), objects)
    return report


def _read(path: Path, read: Callable):
    try:
        return read(path)
    except OSError as error:
        raise UserError(
            f'{path} cannot be read ({error.strerror}): put the dataset there or set COCO_ROOT or '
            'VOC_ROOT to its folder.'
        ) from error
    except ValueError as error:  # broken JSON, or bytes that are no text
        raise UserError(f'{path} is damaged ({error}): download it again.') from error


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file below ``folder``, by relative path; faster than 100,000 look-ups."""
    if not folder.is_dir():
        raise UserError(f'{folder} is not a folder: put the dataset there or link it.')
    walk = os.walk(folder, followlinks=True)
    files = (os.path.join(parent, name) for parent, _, names in walk for name in names)
    present = filter(os.path.isfile, files)  # a dangling link is missing
    return {os.path.relpath(path, folder): os.path.getsize(path) for path in present}


def _check_file(report: DataReport, sizes: Mapping[str, int], name: str) -> None:
    if name not in sizes:
        report.errors['missing image file'].append(name)
    elif not sizes[name]:
        report.errors['empty image file'].append(name)


def check_config(cfg: Mapping) -> list[DataReport]:
    """Check every VOC and COCO dataset that a config uses to train, validate or test, each once."""
    reports = {}
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        for dataset in _datasets(cfg.get(loader, {}).get('dataset')):
            key = (dataset['type'], dataset.get('data_root'), dataset['ann_file'])
            if key not in reports:
                reports[key] = _check_dataset(dataset)
    return list(reports.values())


def _datasets(dataset: Mapping | None) -> Iterator[Mapping]:
    """The VOC and COCO datasets, also inside of wrappers such as ConcatDataset."""
    if dataset is None:
        return
    inner = dataset.get('datasets') or [dataset.get('dataset')]
    for part in inner:
        yield from _datasets(part)
    if inner == [None] and dataset['type'].split('.')[-1] in ('VOCDataset', 'CocoDataset'):
        yield dataset


def _check_dataset(dataset: Mapping) -> DataReport:
    from mmdet.datasets import CocoDataset, VOCDataset

    root = Path(dataset.get('data_root') or '')
    prefix = dataset.get('data_prefix', {})
    voc = dataset['type'].split('.')[-1] == 'VOCDataset'
    default = (VOCDataset if voc else CocoDataset).METAINFO
    classes = dataset.get('metainfo', {}).get('classes', default['classes'])
    annotations = root / dataset['ann_file']
    if voc:
        return check_voc(root / prefix.get('sub_data_root', ''), annotations, classes)
    masks = any(step.get('with_mask') for step in dataset.get('pipeline', ()))
    return check_coco(annotations, root / prefix.get('img', ''), classes, masks)
