import os

import numpy as np
import pytest

from tests.helpers.images import encode, natural
from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('cache')))


@pytest.fixture
def root(tmp_path):
    """Nested, of mixed formats, with things that are no images."""
    files = {
        'b/two.PNG': 'PNG', 'a/one.jpg': 'JPEG', 'a/deep/er/three.webp': 'WEBP', 'top.bmp': 'BMP',
        'a/four.jpeg': 'JPEG',
    }  # fmt: skip
    for i, (name, kind) in enumerate(files.items()):
        path = tmp_path / 'images' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(natural(8, 10, seed=i), kind))
    for junk in ('a/notes.txt', 'b/.hidden.jpg', '.cache/thumb.jpg'):
        path = tmp_path / 'images' / junk
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b'x')
    return tmp_path / 'images'


def test_finds_every_image_in_order(root):
    found = list(scan_folder(root))
    assert found == ['top.bmp', 'a/four.jpeg', 'a/one.jpg', 'a/deep/er/three.webp', 'b/two.PNG']


def test_a_link_back_up_ends(root):
    (root / 'a' / 'loop').symlink_to(root, target_is_directory=True)
    assert len(scan_folder(root)) == 5


def test_second_scan_reads_the_cache_until_a_folder_changes(root, monkeypatch):
    scan_folder(root)
    looked = []
    monkeypatch.setattr(
        os, 'scandir', lambda path, scan=os.scandir: looked.append(path) or scan(path)
    )
    assert len(scan_folder(root)) == 5
    assert not looked
    (root / 'a' / 'deep' / 'er' / 'three.webp').unlink()
    assert len(scan_folder(root)) == 4
    assert looked


def test_an_interrupted_scan_leaves_no_cache(root, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            scan_folder(root)
    assert len(scan_folder(root)) == 5


@pytest.mark.parametrize('name', ['missing', 'empty'])
def test_no_images_is_an_error_with_the_folder(tmp_path, name):
    (tmp_path / 'empty').mkdir()
    with pytest.raises(UserError, match=str(tmp_path / name)):
        ImageFolder(str(tmp_path / name))


def test_pipeline_gets_path_and_generator(root):
    folder = ImageFolder(str(root), pipeline=[lambda results: results])
    sample = folder[SampleIndex(2, epoch=4, seed=9)]
    assert sample['img_path'] == os.path.join(str(root), 'a/one.jpg')
    assert sample['rng'].random() == SampleIndex(2, epoch=4, seed=9).rng().random()
    assert 'gt_label' not in sample


def test_sub_folders_are_classes(root):
    (root / 'top.bmp').unlink()
    folder = ImageFolder(str(root), with_label=True)
    assert folder.metainfo['classes'] == ('a', 'b')
    assert folder.get_gt_labels().tolist() == [0, 0, 0, 1]
    assert folder.get_cat_ids(3) == [1]


def test_an_image_outside_of_classes_is_named(root):
    with pytest.raises(UserError, match=r'top\.bmp'):
        ImageFolder(str(root), with_label=True)


def test_classes_are_numbered_by_name_whatever_the_order_of_the_list(root, tmp_path):
    (tmp_path / 'list.txt').write_text('b/two.PNG\na/one.jpg\n')
    folder = ImageFolder(str(root), list_file=str(tmp_path / 'list.txt'), with_label=True)
    assert len(folder) == 2
    assert folder.metainfo['classes'] == ('a', 'b')
    assert folder.get_gt_labels().tolist() == [1, 0]


@pytest.mark.parametrize('index', [0, 1])
def test_evaluation_ends_at_a_bad_image_with_its_path(root, tmp_path, index):
    """Whether our decoder meets it, or that of another package."""
    bad = root / 'b' / 'bad.png'
    bad.write_bytes(b'<html>not found</html>')
    (tmp_path / 'list.txt').write_text('b/bad.png\n')
    loaders = [lambda results: decode_image(results['img_path']), {'type': 'LoadImageFromFile'}]
    folder = ImageFolder(str(root), [loaders[index]], list_file=str(tmp_path / 'list.txt'))
    with pytest.raises(BadImageError, match=str(bad)):
        folder[0]


def test_a_fault_of_the_pipeline_is_not_blamed_on_the_image(root):
    folder = ImageFolder(str(root), pipeline=[lambda results: results['no such key']])
    with pytest.raises(KeyError):
        folder[0]


def test_builds_from_a_config_in_any_scope(root):
    folder = DATASETS.build({'type': 'ttl_mm.ImageFolder', 'data_root': str(root)})
    assert len(folder) == 5
    assert isinstance(folder[0], dict)
    assert np.issubdtype(type(folder[0]['sample_idx']), np.integer)
