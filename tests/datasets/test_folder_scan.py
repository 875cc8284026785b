import os
import tempfile

import pytest

from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.errors import UserError


def test_finds_every_image_in_order(nested_images):
    found = list(scan_folder(nested_images))
    assert found == ['top.bmp', 'a/four.jpeg', 'a/one.jpg', 'a/deep/er/three.webp', 'b/two.PNG']


def test_a_link_back_up_ends(nested_images):
    (nested_images / 'a' / 'loop').symlink_to(nested_images, target_is_directory=True)
    assert len(scan_folder(nested_images)) == 5


def test_second_scan_reads_the_cache_until_a_folder_changes(nested_images, monkeypatch):
    scan_folder(nested_images)
    looked = []
    monkeypatch.setattr(
        os, 'scandir', lambda path, scan=os.scandir: looked.append(path) or scan(path)
    )
    assert len(scan_folder(nested_images)) == 5
    assert not looked
    (nested_images / 'a' / 'deep' / 'er' / 'three.webp').unlink()
    assert len(scan_folder(nested_images)) == 4
    assert looked


def test_an_interrupted_scan_leaves_no_cache(nested_images, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            scan_folder(nested_images)
    assert len(scan_folder(nested_images)) == 5


def test_a_home_without_room_for_the_cache_is_no_obstacle(nested_images, tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(nested_images / 'top.bmp'))
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    assert len(scan_folder(nested_images)) == 5
    assert list(tmp_path.glob('ttl_mm-scans-*/*.txt'))


def test_no_images_is_an_error_with_the_folder(tmp_path):
    (tmp_path / 'empty').mkdir()
    for name in ('missing', 'empty'):
        with pytest.raises(UserError, match=str(tmp_path / name)):
            scan_folder(tmp_path / name)
