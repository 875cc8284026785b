from collections import Counter

import cv2
import pytest

from ttl_mm.datasets.decode import BadImageError
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.errors import UserError
from ttl_mm.tasks.reid.datasets import ReIDTestSet, ReIDTrainSet, find_layout
from ttl_mm.tasks.reid.synthetic import draw_person, make_split


def test_sysu_test_set(tmp_path):
    make_split(tmp_path / 'data', test_people=3, distractors=2)
    layout = find_layout(tmp_path / 'data')
    dataset = ReIDTestSet(layout.test, layout.query, layout.gallery)
    assert dataset.metainfo['num_query'] == 3
    assert dataset.metainfo['ids'].tolist() == [9, 10, 11, 9, 10, 11, -1000, -1000]
    assert dataset.metainfo['cams'].tolist() == [2, 2, 2, 1, 1, 1, 1, 1]
    assert [dataset[i]['img_path'] for i in (2, 3, 7)] == [
        str(layout.test / 'query/000000011/000000011_c2_2.jpg'),
        str(layout.test / 'gallery/000000009/000000009_c1_1.jpg'),
        str(layout.test / 'gallery/0000others/0000others_c1_2.jpg'),
    ]
    assert layout.train == tmp_path / 'data/sysu_train_set_all'
    assert layout.train_list == tmp_path / 'data/meta/train.txt'


def test_market_test_set(tmp_path):
    make_split(tmp_path, 'market', test_people=2, distractors=4)
    layout = find_layout(tmp_path)
    dataset = ReIDTestSet(layout.test, layout.query, layout.gallery)
    assert Counter(dataset.metainfo['ids'].tolist()) == {9: 1 + 3, 10: 1 + 3, 0: 3, -1: 1}
    assert layout.train == tmp_path / 'bounding_box_train'


def test_a_list_relative_to_the_root_is_recognized(tmp_path):
    make_split(tmp_path)
    write_name_list(tmp_path / 'meta/train.txt', ['sysu_train_set_all/0000000001/a.jpg'])
    assert find_layout(tmp_path).train == tmp_path


def test_folders_that_are_no_test_set_are_named(tmp_path):
    for folder, message in (('x', 'is not a folder'), ('', 'has no folder query')):
        with pytest.raises(UserError, match=message):
            find_layout(tmp_path / folder)
    for name in ('query', 'gallery'):
        (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=r'no images .*query'):
        ReIDTestSet(tmp_path)


def test_bad_files_of_the_test_set_are_named(tmp_path):
    make_split(tmp_path)
    test = tmp_path / 'sysu_test_set_all'
    (test / 'gallery/000000009/000000009_c1_1.jpg').write_bytes(b'no image')
    dataset = ReIDTestSet(test, pipeline=[dict(type='mmpretrain.LoadImageFromFile')])
    with pytest.raises(BadImageError, match=r'000000009_c1_1\.jpg'):
        [dataset[i] for i in range(len(dataset))]
    (test / 'query/0012_5.jpg').touch()
    with pytest.raises(UserError, match=r'names in .*query, 1 in all .0012_5\.jpg has no camera'):
        ReIDTestSet(test)


def test_train_set_reads_no_label_and_refuses_test_identities(tmp_path):
    make_split(tmp_path, train_people=2, images_each=2)
    layout = find_layout(tmp_path)
    options = dict(data_root=str(layout.train), test_root=str(tmp_path))
    dataset = ReIDTrainSet(list_file=str(layout.train_list), **options)
    assert len(dataset) == 4
    assert 'gt_label' not in dataset[3]
    assert cv2.imread(dataset[3]['img_path']).shape == draw_person(1, 1, 0).shape

    names = ['0000000001/a.jpg', '0000000003/a.jpg', '0000000004/a.jpg']
    write_name_list(tmp_path / 'leaking.txt', names)
    with pytest.raises(UserError, match=r'share identities, 2 in all \(3, 4\)'):
        ReIDTrainSet(list_file=str(tmp_path / 'leaking.txt'), **options)
