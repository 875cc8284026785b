import numpy as np
import pytest

from tests.helpers.images import make_folder
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import hold_out, labeled_folder, open_splits


def paths(split):
    return {split.get_data_info(i)['img_path'] for i in range(len(split))}


def test_folders_are_split_the_same_way_everywhere_and_a_config_names_its_own(tmp_path):
    held_out = []
    for folder in (make_folder(tmp_path / name, count=10) for name in ('here', 'there')):
        splits, how = open_splits(str(folder), 32)
        assert (len(splits['train']), len(splits['test'])) == (24, 6)
        images = set(map(str, folder.glob('*/*.png')))
        assert paths(splits['train']) | paths(splits['test']) == images
        held_out.append({p.removeprefix(str(folder)) for p in paths(splits['test'])})
        assert '20%' in how
    assert held_out[0] == held_out[1]
    labels = np.repeat([0, 1, 2], [2, 5, 50])
    chosen = hold_out([str(i) for i in range(57)], labels, 'abc')
    assert [chosen[labels == c].sum() for c in range(3)] == [1, 1, 10]
    config = tmp_path / 'digits.py'
    config.write_text(
        "train_dataloader = dict(dataset=dict(type='ttl_mm.Digits', split='train'))\n"
        "test_dataloader = dict(dataset=dict(type='ttl_mm.Digits', split='test'))\n"
    )
    splits, _ = open_splits(str(config), 16)
    assert [len(splits[name]) for name in ('train', 'test')] == [1200, 597]
    assert splits['test'][3]['inputs'].shape == (3, 16, 16)


def test_folders_of_splits_are_no_classes(tmp_path):
    for name in ('train', 'val'):
        make_folder(tmp_path / name, count=2)
    folder = labeled_folder(tmp_path, 32)
    assert folder.metainfo['classes'] == ('ant', 'bee', 'cat')
    assert paths(folder) == set(map(str, tmp_path.glob('train/*/*.png')))


def test_bad_folders_are_one_sentence(tmp_path):
    (tmp_path / 'empty').mkdir()
    make_folder(tmp_path / 'one class', classes=['ant'])
    make_folder(tmp_path / 'one image', count=1)
    make_folder(tmp_path / 'no val' / 'train')
    make_folder(tmp_path / 'no cat' / 'train')
    make_folder(tmp_path / 'no cat' / 'val', classes=['ant', 'bee'])
    stray = make_folder(tmp_path / 'stray')
    (stray / 'ant' / '0.png').rename(stray / 'x.png')
    for name, message in {
        'empty': 'no images below',
        'missing': 'is not a folder',
        'one class': 'single class',
        'one image': 'class ant has 1 image',
        'no val': 'single class',
        'no cat': r': 1 class in the train split and not in the test split \(cat\)',
        'stray': 'x.png lies in no sub-folder',
    }.items():
        with pytest.raises(UserError, match=message):
            open_splits(str(tmp_path / name), 32)
