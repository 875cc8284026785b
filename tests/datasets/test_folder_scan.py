import os
import tempfile
from unittest import mock

import pytest

from tests.helpers.two_processes import in_two_processes
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.errors import UserError


def test_finds_every_image_in_order_and_none_is_an_error(nested_images, tmp_path):
    expected = ['top.bmp', 'a/four.jpeg', 'a/one.jpg', 'a/deep/er/three.webp', 'b/two.PNG']
    assert list(scan_folder(nested_images)) == expected
    (nested_images / 'a' / 'loop').symlink_to(nested_images, target_is_directory=True)
    assert list(scan_folder(nested_images)) == expected  # a link back up ends
    (tmp_path / 'empty').mkdir()
    for name in ('missing', 'empty'):
        with pytest.raises(UserError, match=str(tmp_path / name)):
            scan_folder(tmp_path / name)


def test_second_scan_reads_the_cache_until_a_folder_changes(nested_images, monkeypatch):
    scan_folder(nested_images)
    looked = mock.Mock(wraps=os.scandir)
    monkeypatch.setattr(os, 'scandir', looked)
    assert len(scan_folder(nested_images)) == 5
    looked.assert_not_called()
    (nested_images / 'a' / 'deep' / 'er' / 'three.webp').unlink()
    assert len(scan_folder(nested_images)) == 4
    looked.assert_called()


def test_interruption_and_a_home_without_room_are_no_obstacle(nested_images, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            scan_folder(nested_images)
    assert len(scan_folder(nested_images)) == 5
    monkeypatch.setenv('XDG_CACHE_HOME', str(nested_images / 'top.bmp'))
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    assert len(scan_folder(nested_images)) == 5
    assert list(tmp_path.glob('ttl_mm-scans-*/*.txt'))


def scan_as_rank(rank, folder):
    """What a rank says to a folder that only the first rank looks at."""
    os.environ['LOCAL_RANK'] = str(rank)
    try:
        return len(scan_folder(folder))
    except UserError as error:
        return str(error)


def test_a_folder_that_one_process_cannot_use_ends_all(tmp_path, nested_images):
    (tmp_path / 'empty').mkdir()
    for folder, expected in ((tmp_path / 'empty', 'no images below'), (nested_images, 5)):
        said = in_two_processes(tmp_path, scan_as_rank, folder)
        assert [expected == x if x == 5 else expected in x for x in said] == [True, True]


def test_two_machines_with_equal_process_ids_scan_one_folder(nested_images, monkeypatch):
    """The stamp of one is not moved away by the other."""
    monkeypatch.setattr(os, 'getpid', lambda: 7)
    replace, other = os.replace, []

    def meanwhile(source, target):
        if not other and str(target).endswith('.json'):
            other.append(None)
            other[0] = len(scan_folder(nested_images))
        replace(source, target)

    monkeypatch.setattr(os, 'replace', meanwhile)
    assert (len(scan_folder(nested_images)), other) == (5, [5])
