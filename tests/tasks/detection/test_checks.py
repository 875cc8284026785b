"""The dataset checks on small generated folders, each with one thing wrong."""

import json
from pathlib import Path

import pytest

from tests.helpers.detection_data import write_coco, write_voc
from ttl_mm.errors import UserError
from ttl_mm.tasks.detection.checks import check_coco, check_config, check_voc

CLASSES = ('cat', 'dog')


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    return write_voc(tmp_path, n_train=3, n_test=1, classes=CLASSES)


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return write_coco(tmp_path, n_train=3, n_val=1, classes=CLASSES)


def voc_report(root: Path):
    folder = root / 'VOC2007'
    return check_voc(folder, folder / 'ImageSets' / 'Main' / 'trainval.txt', CLASSES)


def coco_report(root: Path, with_masks: bool = True):
    annotations = root / 'annotations' / 'instances_train2017.json'
    return check_coco(annotations, root / 'train2017', CLASSES, with_masks)


def edit_coco(root: Path, change) -> None:
    path = root / 'annotations' / 'instances_train2017.json'
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def first_xml(root: Path) -> Path:
    return sorted((root / 'VOC2007' / 'Annotations').glob('trainval*'))[0]


def test_good_folders_have_nothing_to_report(voc: Path, coco: Path) -> None:
    for report in (voc_report(voc), coco_report(coco)):
        assert report.usable
        assert list(report.counts.values()) == ['images: 3, objects: 6']
        assert not report.errors
        assert not report.notes


@pytest.mark.parametrize(
    ('damage', 'kind'),
    [
        (lambda xml, jpg: jpg.unlink(), 'missing image file'),
        (lambda xml, jpg: jpg.write_bytes(b''), 'empty image file'),
        (lambda xml, jpg: xml.unlink(), 'missing annotation file'),
        (lambda xml, jpg: xml.write_text('<annotation><obj'), 'unreadable annotation file'),
        (
            lambda xml, jpg: xml.write_text(xml.read_text().replace('<xmin>', '<x>')),
            'unreadable annotation file',
        ),
        (lambda xml, jpg: _swap_corners(xml), 'box without area'),
    ],
)
def test_voc_errors(voc: Path, damage, kind: str) -> None:
    xml = first_xml(voc)
    damage(xml, voc / 'VOC2007' / 'JPEGImages' / f'{xml.stem}.jpg')
    report = voc_report(voc)
    assert not report.usable
    assert list(report.errors) == [kind]
    assert xml.stem in report.errors[kind][0]
    assert kind in str(report)


def _swap_corners(xml: Path) -> None:
    text = xml.read_text()
    text = text.replace('xmin>', 'TEMP>').replace('xmax>', 'xmin>').replace('TEMP>', 'xmax>')
    xml.write_text(text)


def test_voc_list_naming_absent_files(voc: Path) -> None:
    path = voc / 'VOC2007' / 'ImageSets' / 'Main' / 'trainval.txt'
    path.write_text(path.read_text() + 'no_such_image\n')
    report = voc_report(voc)
    assert report.errors == {
        'missing image file': ['no_such_image.jpg'],
        'missing annotation file': ['no_such_image.xml'],
    }


def test_voc_image_without_objects_is_only_noted(voc: Path) -> None:
    xml = first_xml(voc)
    xml.write_text(xml.read_text().replace('cat', 'unicorn').replace('dog', 'unicorn'))
    report = voc_report(voc)
    assert report.usable
    assert report.notes == {'image without objects': [f'{xml.stem}.jpg']}


def test_no_object_at_all_is_an_error(voc: Path) -> None:
    for xml in (voc / 'VOC2007' / 'Annotations').iterdir():
        xml.write_text('<annotation></annotation>')
    report = voc_report(voc)
    assert not report.usable
    assert 'file that lists no object of a known class' in report.errors


@pytest.mark.parametrize(
    ('change', 'kind'),
    [
        (lambda c: c['images'][0].update(file_name='gone.jpg'), 'missing image file'),
        (
            lambda c: c['annotations'][0].update(image_id=99),
            'annotation of an image that the file does not list',
        ),
        (lambda c: c['annotations'][0].pop('segmentation'), 'object without a mask'),
        (lambda c: c['annotations'][1].update(id=1), 'annotation id used more than once'),
        (
            lambda c: c['categories'][1].update(name='wolf'),
            'class that is not a category of the file',
        ),
    ],
)
def test_coco_errors(coco: Path, change, kind: str) -> None:
    edit_coco(coco, change)
    report = coco_report(coco)
    assert not report.usable
    assert list(report.errors) == [kind]


def test_coco_masks_are_asked_for_only_where_needed(coco: Path) -> None:
    edit_coco(coco, lambda c: c['annotations'][0].pop('segmentation'))
    assert coco_report(coco, with_masks=False).usable


def test_coco_notes(coco: Path) -> None:
    def change(content: dict) -> None:
        content['annotations'] = [a for a in content['annotations'] if a['image_id'] != 1]
        content['annotations'][0].update(bbox=[3, 3, 0, 5], area=0)

    edit_coco(coco, change)
    report = coco_report(coco)
    assert report.usable
    assert set(report.notes) == {'image without objects', 'box without area'}


def test_damaged_or_absent_files_name_the_path(coco: Path) -> None:
    path = coco / 'annotations' / 'instances_train2017.json'
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match=r'instances_train2017\.json is damaged'):
        coco_report(coco)
    for content, fault in (
        ('{}', "'categories' is missing"),
        ('[]', 'list indices must be'),
        ('{"images": [], "categories": [], "annotations": [{"id": 1}]}', "'image_id' is missing"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=f'not a COCO annotation file .{fault}'):
            coco_report(coco)
    path.unlink()
    with pytest.raises(UserError, match=r'cannot be read .*COCO_ROOT'):
        coco_report(coco)


def test_config_is_walked_through_wrappers(voc: Path, coco: Path) -> None:
    """Each dataset once, whatever it is wrapped in; other kinds are left alone."""
    part = dict(
        type='VOCDataset',
        data_root=str(voc),
        ann_file='VOC2007/ImageSets/Main/trainval.txt',
        data_prefix=dict(sub_data_root='VOC2007/'),
        metainfo=dict(classes=CLASSES),
    )
    instances = dict(
        type='mmdet.CocoDataset',
        data_root=str(coco),
        ann_file='annotations/instances_train2017.json',
        data_prefix=dict(img='train2017/'),
        metainfo=dict(classes=CLASSES),
        pipeline=[dict(type='LoadAnnotations', with_mask=True)],
    )
    edit_coco(coco, lambda c: c['annotations'][0].pop('segmentation'))
    repeated = dict(type='RepeatDataset', times=3, dataset=part)
    cfg = dict(
        train_dataloader=dict(
            dataset=dict(type='ConcatDataset', datasets=[repeated, part, instances])
        ),
        val_dataloader=dict(dataset=dict(type='OtherDataset', ann_file='x')),
    )
    first, second = check_config(cfg)
    assert first.usable
    assert list(second.errors) == ['object without a mask']
