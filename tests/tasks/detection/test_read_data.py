"""Boxes in three formats, and what is wrong with them."""

import json
import shutil

import cv2
import numpy as np
import pytest

from tests.helpers.detection_data import write_coco, write_voc
from tests.helpers.yolo_data import write_yolo
from ttl_mm.errors import UserError
from ttl_mm.finetuning.hold_out import hold_out
from ttl_mm.tasks.detection.annotated import Annotated, Thing
from ttl_mm.tasks.detection.read_data import read_data
from ttl_mm.tasks.detection.yolo_names import names_in_yaml

CLASSES = ('red', 'green', 'blue')


@pytest.fixture
def coco(tmp_path):
    return write_coco(tmp_path, 6, 4, CLASSES)


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path, 6, 4, CLASSES)


@pytest.fixture
def yolo(tmp_path):
    return write_yolo(tmp_path / 'yolo', {'train': 6, 'val': 4}, CLASSES)


def refused(data, *words, **options):
    said = []
    with pytest.raises(UserError, match='cannot be used: correct one kind of error listed above'):
        read_data(data, say=said.append, **options)
    for word in words:
        assert word in '\n'.join(said)


def test_all_formats_give_the_same_kind_of_boxes(coco, voc, yolo):
    for data, kind in ((coco, 'COCO'), (voc, 'VOC'), (yolo, 'YOLO')):
        found = read_data(data, say=lambda text: None)
        assert (found.kind, len(found.train), len(found.val)) == (kind, 6, 4)
        assert sorted(found.classes) == sorted(CLASSES)
        assert found.has_shapes == (kind == 'COCO')
        for image in (*found.train, *found.val):
            assert (image.width, image.height) == (96, 96)
            for thing in image.things:
                # every box holds the color of its class and nothing else
                x1, y1, x2, y2 = np.round(thing.box).astype(int)
                inside = cv2.imread(str(image.path))[y1:y2, x1:x2].reshape(-1, 3)
                assert 24 <= x2 - x1 < 36
                assert inside.max(axis=1).mean() > 230
    hard = {t.hard for image in read_data(voc, say=len).train for t in image.things}
    assert hard == {True, False}


def test_nothing_is_written_beside_the_data(yolo):
    before = sorted(yolo.rglob('*'))
    read_data(yolo, say=len)
    assert sorted(yolo.rglob('*')) == before


def test_a_fifth_is_held_out_where_nothing_says_what_to_validate_on(coco, voc, yolo):
    shutil.rmtree(voc / 'VOC2007/ImageSets')
    shutil.rmtree(yolo / 'images/val')
    for data, count in ((coco / 'annotations/instances_train2017.json', 6), (voc, 10), (yolo, 6)):
        found = read_data(data, say=len)
        assert len(found.val) == max(1, round(count / 5))
        names = [{image.path for image in images} for images in (found.train, found.val)]
        assert len(names[0] | names[1]) == count
        assert 'a fifth' in found.how
    with pytest.raises(UserError, match='1 image: two are needed'):
        hold_out([Annotated(voc, 1, 1)])


def test_classes_are_chosen_by_name(voc):
    found = read_data(voc, ['blue'], say=len)
    assert found.classes == ('blue',)
    assert {t.name for image in found.train for t in image.things} == {'blue'}
    with pytest.raises(UserError, match=r"--classes bleu: the data have no class .* 'blue'"):
        read_data(voc, ['bleu'], say=len)


def change_coco(coco, change, split='train2017'):
    path = coco / f'annotations/instances_{split}.json'
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_faults_of_coco_are_named(coco):
    change_coco(coco, lambda c: c['annotations'][0].update(bbox=[80, 10, 60, 20]))
    refused(coco, 'box outside of the image', '80 10 140 30 in 96 x 96')
    change_coco(coco, lambda c: c['annotations'][0].update(category_id=99))
    refused(coco, 'annotation of a category that the file does not list: annotation 1')
    change_coco(coco, lambda c: c['annotations'][0].update(category_id=10, image_id=77))
    refused(coco, 'annotation of an image that the file does not list: annotation 1')


def test_an_annotation_without_its_image_is_named(coco, voc, yolo):
    (coco / 'train2017/000002.jpg').unlink()
    refused(coco, '1 x missing image file: 000002.jpg')
    (voc / 'VOC2007/JPEGImages/trainval001.jpg').unlink()
    refused(voc, '1 x missing image file: trainval001.jpg')
    (yolo / 'images/train/003.jpg').unlink()
    refused(yolo, '1 x annotation without an image: 003.txt')


def test_a_class_without_objects_is_named(coco):
    change_coco(coco, lambda c: c['categories'].append({'id': 50, 'name': 'purple'}))
    said = []
    assert read_data(coco, say=said.append).classes == CLASSES
    assert 'note: 1 x class that is left out: purple' in '\n'.join(said)
    refused(coco, 'class without an object to train on: purple', classes=['red', 'purple'])


def test_a_misspelled_class_of_the_validation_images_is_named(voc):
    path = voc / 'VOC2007/Annotations/test000.xml'
    for name in CLASSES:
        path.write_text(path.read_text().replace(f'<name>{name}<', '<name>gren<'))
    said = []
    read_data(voc, say=said.append)
    assert 'class of validation objects that no training image has: gren' in '\n'.join(said)


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('7 0.5 0.5 0.1 0.1', 'class that has no name: 000.txt:1 (7 of 3)'),
        ('0 0.5 0.5 0.1', 'line that is no box: 000.txt:1 (it has 3 coordinates)'),
        ('red 0.5 0.5 0.1 0.1', 'line that is no box: 000.txt:1'),
        ('0 0.9 0.5 0.4 0.1', 'box outside of the image: 000.jpg red'),
        ('0 0.5 0.5 0 0.1', 'box without area: 000.jpg red'),
        ('0 nan 0.5 0.1 0.1', 'box that is not finite: 000.jpg red'),
    ],
)
def test_faults_of_yolo_are_named(yolo, line, words):
    path = yolo / 'labels/train/000.txt'
    path.write_text(f'{line}\n' + path.read_text())
    refused(yolo, words)


def test_polygons_of_yolo_are_shapes(yolo):
    for path in (yolo / 'labels').rglob('*.txt'):
        path.write_text('1 0.25 0.25 0.5 0.25 0.5 0.75\n')
    found = read_data(yolo, say=len)
    assert found.has_shapes
    thing = found.train[0].things[0]
    assert thing == Thing('green', (24.0, 24.0, 48.0, 72.0), [[24, 24, 48, 24, 48, 72]])


def test_names_of_yolo_in_every_form(yolo, tmp_path):
    texts = ("names: ['a b', c]", 'names:\n- a b\n- "c"\n', 'names:\n  0: a b\n  1: c\nnc: 2')
    for text in texts:
        assert names_in_yaml(f'train: x\n{text}\n') == ('a b', 'c')
    (yolo / 'data.yaml').unlink()
    with pytest.raises(UserError, match='names no classes: put classes'):
        read_data(yolo)
    (yolo / 'classes.txt').write_text('red\ngreen\nblue\n')
    assert read_data(yolo, say=len).classes == CLASSES


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(UserError, match='is no dataset that is known here: name a COCO json'):
        read_data(tmp_path)
    (tmp_path / 'a.json').write_text('{}')
    with pytest.raises(UserError, match=r'a.json is not a COCO annotation file \(KeyError'):
        read_data(tmp_path / 'a.json')
