"""What is wrong with a VOC or COCO folder, before a detector trains on it for a day.

mmdet stops at the first absent file, at start-up for an annotation and mid-training for an image,
and skips other problems in silence. Here is the whole list at once.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from ttl_mm.errors import UserError


@dataclass
class DatasetReport:
    """What was found in one dataset: kind of problem -> the places where it is."""

    name: str
    images: int = 0
    objects: int = 0
    errors: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # are left out

    @property
    def usable(self) -> bool:
        """Whether training on it can go through."""
        return not self.errors and self.objects > 0

    def __str__(self) -> str:
        lines = [f'{self.name}: {self.images} images, {self.objects} objects']
        for mark, problems in (('ERROR', self.errors), ('note ', self.notes)):
            for kind, where in problems.items():
                more = f' and {len(where) - 3} more' if len(where) > 3 else ''
                lines.append(f'  {mark} {len(where)} x {kind}: {", ".join(where[:3])}{more}')
        if not self.objects:
            lines.append('  ERROR no object of a known class in any image')
        return '\n'.join(lines)


def check_voc(folder: Path, list_file: Path, classes: Collection[str]) -> DatasetReport:
    """Check the images that ``list_file`` names in a ``VOC2007``-like folder.

    Args:
        folder: Holds ``JPEGImages`` and ``Annotations``.
        list_file: One name a line, without a suffix.
        classes: Objects of other classes do not count.
    """
    names = _read(list_file, lambda path: path.read_text().split('\n'))
    names = [name.rstrip('\r') for name in names if name.strip()]
    images = _sizes(folder / 'JPEGImages')
    annotations = _sizes(folder / 'Annotations')
    report = DatasetReport(str(list_file), images=len(names))
    for name, count in Counter(names).items():
        if count > 1:
            report.notes['name listed more than once'].append(name)
        _check_file(report, images, f'{name}.jpg')
        if f'{name}.xml' not in annotations:
            report.errors['annotation file is absent'].append(f'{name}.xml')
            continue
        try:
            found = _voc_objects(folder / 'Annotations' / f'{name}.xml', classes)
        except (ElementTree.ParseError, AttributeError, TypeError, ValueError) as error:
            report.errors['annotation file cannot be read'].append(f'{name}.xml ({error})')
            continue
        report.objects += len(found)
        if not found:
            report.notes['image with no object'].append(f'{name}.jpg')
        for kind, (left, top, right, bottom) in found:
            if left >= right or top >= bottom:
                report.errors['box with no area'].append(f'{name}.xml {kind}')
    return report


def _voc_objects(path: Path, classes: Collection[str]) -> list[tuple[str, tuple[float, ...]]]:
    """Class and box of each object, by the elements that mmdet reads."""
    root = ElementTree.parse(path).getroot()
    if root.find('size') is not None:
        int(root.find('size/width').text), int(root.find('size/height').text)
    found = []
    for item in root.findall('object'):
        kind = item.find('name').text
        if kind in classes:
            corners = (item.find(f'bndbox/{c}').text for c in ('xmin', 'ymin', 'xmax', 'ymax'))
            found.append((kind, tuple(map(float, corners))))
    return found


def check_coco(
    annotation_file: Path, image_folder: Path, classes: Collection[str], with_masks: bool = False
) -> DatasetReport:
    """Check a COCO annotation file and the images that it names.

    Args:
        annotation_file: ``instances_*.json``
        image_folder: Where its ``file_name`` entries are.
        classes: Every one of them must be among the categories.
        with_masks: Whether each object needs a ``segmentation``.
    """
    content = _read(annotation_file, lambda path: json.loads(path.read_bytes()))
    try:
        return _check_coco(annotation_file, content, _sizes(image_folder), classes, with_masks)
    except (KeyError, TypeError) as error:
        raise UserError(
            f'{annotation_file} is no COCO annotation file: something in it lacks {error}.'
        ) from error


def _check_coco(
    path: Path,
    content: Mapping,
    files: Mapping[str, int],
    classes: Collection[str],
    with_masks: bool,
) -> DatasetReport:
    report = DatasetReport(str(path), images=len(content['images']))
    categories = {c['id']: c['name'] for c in content['categories']}
    for name in sorted(set(classes) - set(categories.values())):
        report.errors['class that is no category of the file'].append(name)
    images = {image['id']: image['file_name'] for image in content['images']}
    for name in images.values():
        _check_file(report, files, name)
    for identity, count in Counter(a['id'] for a in content['annotations']).items():
        if count > 1:
            report.errors['annotation id used more than once'].append(str(identity))
    annotated = set()
    for annotation in content['annotations']:
        where = f'annotation {annotation["id"]}'
        if annotation['image_id'] not in images:
            report.errors['annotation of an image that the file does not list'].append(where)
        elif categories.get(annotation['category_id']) in classes:
            annotated.add(annotation['image_id'])
            report.objects += 1
            if min(annotation['bbox'][2:]) < 1 or annotation.get('area', 1) <= 0:
                report.notes['box with no area'].append(where)
            elif with_masks and not annotation.get('segmentation'):
                report.errors['object without a mask'].append(where)
    for identity in images.keys() - annotated:
        report.notes['image with no object'].append(images[identity])
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
        raise UserError(f'{path} is damaged ({error}): copy it again.') from error


def _sizes(folder: Path) -> dict[str, int]:
    """Every file below ``folder``, by its path relative to it: one listing is quicker than a
    question for each of 100,000 files.
    """
    if not folder.is_dir():
        raise UserError(f'{folder} is no folder: put the dataset there or link it.')
    sizes = {}
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path):  # not a dangling link
                sizes[os.path.relpath(path, folder)] = os.path.getsize(path)
    return sizes


def _check_file(report: DatasetReport, sizes: Mapping[str, int], name: str) -> None:
    if name not in sizes:
        report.errors['image file is absent'].append(name)
    elif not sizes[name]:
        report.errors['image file is empty'].append(name)


def check_config(cfg: Mapping) -> list[DatasetReport]:
    """Check every VOC and COCO dataset that a detection config trains, validates or tests on."""
    reports = {}
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        for dataset in _datasets(cfg.get(loader, {}).get('dataset')):
            key = (dataset['type'], dataset.get('data_root'), dataset['ann_file'])
            if key not in reports:
                reports[key] = _check_dataset(dataset)
    return list(reports.values())


def _datasets(dataset: Mapping | None) -> Iterator[Mapping]:
    """The datasets inside wrappers such as ConcatDataset and RepeatDataset."""
    if dataset is None:
        return
    inner = dataset.get('datasets') or ([dataset['dataset']] if 'dataset' in dataset else [])
    if not inner and dataset['type'].split('.')[-1] in ('VOCDataset', 'CocoDataset'):
        yield dataset
    for part in inner:
        yield from _datasets(part)


def _check_dataset(dataset: Mapping) -> DatasetReport:
    from mmdet.datasets import CocoDataset, VOCDataset

    root = Path(dataset.get('data_root') or '')
    prefix = dataset.get('data_prefix', {})
    voc = dataset['type'].split('.')[-1] == 'VOCDataset'
    default = (VOCDataset if voc else CocoDataset).METAINFO
    classes = dataset.get('metainfo', {}).get('classes', default['classes'])
    if voc:
        return check_voc(
            root / prefix.get('sub_data_root', ''), root / dataset['ann_file'], classes
        )
    masks = any(step.get('with_mask') for step in dataset.get('pipeline', ()))
    return check_coco(root / dataset['ann_file'], root / prefix.get('img', ''), classes, masks)
