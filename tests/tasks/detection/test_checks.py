"""The dataset checks on small generated folders, each with one thing wrong."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.detection_data import write_coco, write_voc
from ttl_mm.errors import UserError
from ttl_mm.tasks.detection.checks import check_coco, check_config, check_voc

CLASSES = ('cat', 'dog')
SWAPPED = ('xmin>', 'TEMP>'), ('xmax>', 'xmin>'), ('TEMP>', 'xmax>')
NOT_LISTED = 'annotation of an image that the file does not list'
UNKNOWN_CLASS = 'class that is not a category of the file'
LIST, INSTANCES = 'ImageSets/Main/trainval.txt', 'annotations/instances_train2017.json'


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    return write_voc(tmp_path, n_train=3, n_test=1, classes=CLASSES) / 'VOC2007'


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return write_coco(tmp_path, n_train=3, n_val=1, classes=CLASSES)


def voc_report(folder: Path):
    return check_voc(folder, folder / LIST, CLASSES)


def coco_report(root: Path, with_masks: bool = True):
    return check_coco(root / INSTANCES, root / 'train2017', CLASSES, with_masks)


def edit_coco(root: Path, change) -> None:
    content = json.loads((root / INSTANCES).read_text())
    change(content)
    (root / INSTANCES).write_text(json.dumps(content))


def replace(path: Path, *pairs: tuple[str, str]) -> None:
    for old, new in pairs:
        path.write_text(path.read_text().replace(old, new))


def test_good_folders_have_nothing_to_report(voc: Path, coco: Path) -> None:
    for report in (voc_report(voc), coco_report(coco)):
        assert report.usable
        assert list(report.counts.values()) == ['images: 3, objects: 6']
        assert (report.errors, report.notes) == ({}, {})


@pytest.mark.parametrize(
    ('damage', 'kind'),
    [
        (lambda xml, jpg: jpg.unlink(), 'missing image file'),
        (lambda xml, jpg: jpg.write_bytes(b''), 'empty image file'),
        (lambda xml, jpg: xml.unlink(), 'missing annotation file'),
        (lambda xml, jpg: xml.write_text('<annotation><obj'), 'unreadable annotation file'),
        (lambda xml, jpg: replace(xml, ('<xmin>', '<x>')), 'unreadable annotation file'),
        (lambda xml, jpg: replace(xml, ('bndbox', 'box')), 'unreadable annotation file'),
        (lambda xml, jpg: replace(xml, *SWAPPED), 'box without area'),
        (lambda xml, jpg: replace(xml, ('<xmin>', '<xmin>nan</xmin><xmin>')), 'box without area'),
        (lambda xml, jpg: replace(xml, ('<xmax>', '<xmax>inf</xmax><xmax>')), 'box without area'),
        (
            lambda xml, jpg: replace(
                xml, ('<annotation>', '<!DOCTYPE a [<!ENTITY b "c">]><annotation>')
            ),
            'unreadable annotation file',
        ),
        (lambda xml, jpg: (xml.unlink(), os.mkfifo(xml)), 'missing annotation file'),
    ],
)
def test_voc_errors(voc: Path, damage, kind: str) -> None:
    damage(voc / 'Annotations/trainval000.xml', voc / 'JPEGImages/trainval000.jpg')
    report = voc_report(voc)
    assert not report.usable
    assert list(report.errors) == [kind]
    assert 'trainval000' in report.errors[kind][0]
    assert kind in str(report)


def test_voc_list_naming_absent_and_repeated_files(voc: Path) -> None:
    (voc / LIST).write_text((voc / LIST).read_text() + 'no_such_image\ntrainval001\n')
    report = voc_report(voc)
    assert report.errors == {
        'missing image file': ['no_such_image.jpg'],
        'missing annotation file': ['no_such_image.xml'],
    }
    assert report.notes == {'name listed more than once': ['trainval001']}


def test_voc_images_without_objects_are_errors_only_if_all_are(voc: Path) -> None:
    for name in ('trainval000', 'trainval001', 'trainval002'):
        report = voc_report(voc)
        assert report.usable
        replace(voc / f'Annotations/{name}.xml', ('cat', 'unicorn'), ('dog', 'unicorn'))
    assert report.notes == {'image without objects': ['trainval000.jpg', 'trainval001.jpg']}
    assert list(voc_report(voc).errors) == ['file that lists no object of a known class']


@pytest.mark.parametrize(
    ('change', 'kind'),
    [
        (lambda c: c['images'][0].update(file_name='gone.jpg'), 'missing image file'),
        (lambda c: c['annotations'][0].update(image_id=99), NOT_LISTED),
        (lambda c: c['annotations'][0].pop('segmentation'), 'object without a mask'),
        (lambda c: c['annotations'][1].update(id=1), 'annotation id used more than once'),
        (lambda c: c['categories'][1].update(name='wolf'), UNKNOWN_CLASS),
    ],
)
def test_coco_errors(coco: Path, change, kind: str) -> None:
    edit_coco(coco, change)
    report = coco_report(coco)
    assert not report.usable
    assert list(report.errors) == [kind]
    needs_no_mask = kind == 'object without a mask'
    assert coco_report(coco, with_masks=False).usable == needs_no_mask


def test_coco_notes(coco: Path) -> None:
    def change(content: dict) -> None:
        content['annotations'] = [a for a in content['annotations'] if a['image_id'] != 1]
        content['annotations'][0].update(bbox=[3, 3, 0, 5], area=0)

    edit_coco(coco, change)
    report = coco_report(coco)
    assert report.usable
    assert set(report.notes) == {'image without objects', 'box without area'}


def test_damaged_or_absent_files_name_the_path(coco: Path) -> None:
    path = coco / INSTANCES
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match=r'instances_train2017\.json is damaged'):
        coco_report(coco)
    for content, fault in (
        ('{}', "'categories' is missing"),
        ('[]', 'list indices must be'),
        ('{"images": [], "categories": [], "annotations": [{"id": 1}]}', "'image_id' is missing"),
        ('{"images": [{"id": 1, "file_name": 4}], "categories": []}', 'the file name 4 is no text'),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=f'not a COCO annotation file .{fault}'):
            coco_report(coco)
    path.unlink()
    with pytest.raises(UserError, match=r'cannot be read .*COCO_ROOT'):
        coco_report(coco)


def test_config_is_walked_through_wrappers(voc: Path, coco: Path) -> None:
    """Each dataset once, whatever it is wrapped in; other kinds are left alone."""
    images = dict(metainfo=dict(classes=CLASSES))
    part = dict(
        images, type='VOCDataset', data_root=str(voc.parent), ann_file=f'VOC2007/{LIST}',
        data_prefix=dict(sub_data_root='VOC2007/'),
    )  # fmt: skip
    instances = dict(
        images, type='mmdet.CocoDataset', data_root=str(coco), ann_file=INSTANCES,
        data_prefix=dict(img='train2017/'),
        pipeline=[dict(type='LoadAnnotations', with_mask=True)],
    )  # fmt: skip
    edit_coco(coco, lambda c: c['annotations'][0].pop('segmentation'))
    repeated = dict(type='RepeatDataset', times=3, dataset=part)
    joined = dict(type='ConcatDataset', datasets=[repeated, part, instances])
    other = dict(type='OtherDataset', ann_file='x')
    first, second = check_config(
        dict(train_dataloader=dict(dataset=joined), val_dataloader=dict(dataset=other))
    )
    assert first.usable
    assert list(second.errors) == ['object without a mask']
