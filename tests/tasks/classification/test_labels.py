import numpy as np
import pytest

from tests.helpers.images import make_folder
from ttl_mm.errors import UserError
from ttl_mm.tasks.classification.labels import draw, find_labeled


def test_splits_of_a_folder_are_used_as_they_are(tmp_path):
    make_folder(tmp_path / 'train', count=5)
    make_folder(tmp_path / 'val', count=2)
    data = find_labeled(tmp_path)
    assert (len(data.pool), len(data.test)) == (15, 6)
    assert data.how == 'the folder val'
    assert data.classes == ('ant', 'bee', 'cat')


def test_an_empty_class_is_named(tmp_path):
    make_folder(tmp_path, count=5)
    (tmp_path / 'dog').mkdir()
    (tmp_path / '.cache').mkdir()
    with pytest.raises(UserError, match=r'has 1 class without an image \(dog\): put images into'):
        find_labeled(tmp_path)


def test_a_class_of_one_split_only_is_named(tmp_path):
    make_folder(tmp_path / 'train', ('ant', 'bee'))
    make_folder(tmp_path / 'test', ('ant', 'beee'))
    with pytest.raises(UserError, match=r'in the train split and not in the test split \(bee\)'):
        find_labeled(tmp_path)


@pytest.mark.parametrize(('count', 'folder', 'needed'), [(2, '.', 3), (1, 'train', 2)])
def test_too_few_images_of_a_class_are_named(tmp_path, count, folder, needed):
    make_folder(tmp_path / folder, count=5)
    make_folder(tmp_path / 'test', count=1) if folder == 'train' else None
    for path in sorted((tmp_path / folder / 'bee').iterdir())[count:]:
        path.unlink()
    with pytest.raises(UserError, match=rf'class bee has {count} images?: at least {needed} are'):
        find_labeled(tmp_path)


def test_a_draw_depends_on_the_seed_and_its_parts_are_apart(tmp_path):
    data = find_labeled(make_folder(tmp_path, count=30))
    found = [draw(data, seed, per_class=10) for seed in (0, 0, 1)]
    names = [{*splits['train'].names, *splits['val'].names} for splits in found]
    assert names[0] == names[1] != names[2]
    for splits in found:
        assert np.bincount(splits['train'].labels).tolist() == [8, 8, 8]
        assert np.bincount(splits['val'].labels).tolist() == [2, 2, 2]
        assert not {*splits['train'].names} & {*splits['val'].names, *data.test.names}
    part = draw(data, 0, fraction=0.5)
    assert len(part['train']) + len(part['val']) == 36  # of 24 of every class
    whole = draw(data, 5)
    assert len(whole['train']) + len(whole['val']) == len(data.pool)
    with pytest.raises(UserError, match='class ant has 24 images to learn from, and --per-class'):
        draw(data, 0, per_class=25)
