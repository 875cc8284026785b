import numpy as np
import pytest

from tests.helpers.folders import make_folder
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import hold_out, open_splits


def paths(split):
    return {split.get_data_info(i)['img_path'] for i in range(len(split))}


def test_a_folder_of_classes_is_split_the_same_way_everywhere(tmp_path):
    folders = [make_folder(tmp_path / name, count=10) for name in ('here', 'there')]
    held_out = []
    for folder in folders:
        splits, how = open_splits(str(folder), 32)
        assert (len(splits['train']), len(splits['test'])) == (24, 6)
        assert paths(splits['train']) | paths(splits['test']) == set(
            map(str, folder.glob('*/*.png'))
        )
        held_out.append({p.removeprefix(str(folder)) for p in paths(splits['test'])})
        assert '20%' in how
    assert held_out[0] == held_out[1]


def test_every_class_is_held_out_from():
    labels = np.repeat([0, 1, 2], [2, 5, 50])
    chosen = hold_out([str(i) for i in range(57)], labels, 'abc')
    assert [chosen[labels == c].sum() for c in range(3)] == [1, 1, 10]


def test_a_config_names_the_datasets(tmp_path):
    config = tmp_path / 'digits.py'
    config.write_text(
        "train_dataloader = dict(dataset=dict(type='ttl_mm.Digits', split='train'))\n"
        "test_dataloader = dict(dataset=dict(type='ttl_mm.Digits', split='test'))\n"
    )
    splits, _ = open_splits(str(config), 16)
    assert [len(splits[name]) for name in ('train', 'test')] == [1200, 597]
    assert splits['test'][3]['inputs'].shape == (3, 16, 16)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda root: root.mkdir(), 'no images below'),
        (lambda root: None, 'is not a folder'),
        (lambda root: make_folder(root, classes=['ant']), 'single class'),
        (lambda root: make_folder(root, count=1), 'class ant has 1 image'),
        (
            lambda root: (make_folder(root / 'train'), make_folder(root / 'val', ['ant', 'bee'])),
            r'1 classes .* in the train split and not in the test split \(cat\)',
        ),
        (
            lambda root: (make_folder(root), (root / 'ant' / '0.png').rename(root / 'x.png')),
            'x.png lies in no sub-folder',
        ),
    ],
)
def test_bad_folders_are_one_sentence(tmp_path, make, message):
    make(tmp_path / 'data')
    with pytest.raises(UserError, match=message):
        open_splits(str(tmp_path / 'data'), 32)
