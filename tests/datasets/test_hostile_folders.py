"""Folders and caches that somebody else has prepared, and names of all kinds."""

import os

import pytest

from tests.helpers.images import encode, natural
from ttl_mm.datasets.folder_scan import list_images, scan_folder
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.name_list import NameList, write_name_list
from ttl_mm.errors import UserError
from ttl_mm.files import cache_folder


@pytest.fixture
def images(tmp_path):
    root = tmp_path / 'images'
    root.mkdir()
    (root / 'a.jpg').write_bytes(encode(natural(8, 8)))
    return root


@pytest.fixture
def shared_folder(tmp_path, monkeypatch):
    """A machine with a read-only home, whose temporary folder all users share."""
    monkeypatch.setattr(cache_folder.os, 'access', lambda path, mode: False)
    monkeypatch.setattr(cache_folder.tempfile, 'gettempdir', lambda: str(tmp_path))
    return tmp_path / f'ttl_mm-scans-{os.getuid()}'


def test_a_cache_of_somebody_else_is_refused(images, shared_folder, tmp_path, monkeypatch):
    scan_folder(images)
    assert shared_folder.stat().st_mode & 0o777 == 0o700
    shared_folder.chmod(0o777)
    scan_folder(images)
    assert shared_folder.stat().st_mode & 0o777 == 0o700  # it is ours: now closed
    owner = os.getuid()
    monkeypatch.setattr(cache_folder.os, 'getuid', lambda: owner + 1)
    (tmp_path / f'ttl_mm-scans-{owner + 1}').mkdir()
    with pytest.raises(UserError, match='belongs to somebody else'):
        scan_folder(images)
    monkeypatch.setattr(cache_folder.os, 'getuid', lambda: owner)
    shared_folder.rename(tmp_path / 'elsewhere')
    shared_folder.symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match='set XDG_CACHE_HOME to a folder of your own'):
        scan_folder(images)


def test_a_list_is_never_written_through_a_link(tmp_path, monkeypatch):
    private = tmp_path / 'private'
    private.write_text('keep me')
    monkeypatch.setattr('ttl_mm.datasets.name_list.uuid4', lambda: type('Id', (), {'hex': 'known'}))
    (tmp_path / 'a.txt.known.partial').symlink_to(private)
    with pytest.raises(FileExistsError):
        write_name_list(tmp_path / 'a.txt', ['x.jpg'])
    assert private.read_text() == 'keep me'


def test_links_to_themselves_unreadable_folders_and_odd_names(images, monkeypatch):
    (images / 'loop').symlink_to(images / 'loop')
    (images / 'again').symlink_to(images)
    bad = os.fsdecode(b'\xff.jpg')
    (images / bad).write_bytes(encode(natural(8, 8)))
    (images / 'b\x1b[31m.jpg').write_bytes(b'no image')
    assert sorted(scan_folder(images)) == sorted(['a.jpg', bad, 'b\x1b[31m.jpg'])
    dataset = ImageFolder(str(images), [{'type': 'ttl_mm.LoadImage'}])
    index = list(dataset.names).index('b\x1b[31m.jpg')
    with pytest.raises(UserError) as caught:
        dataset[index]
    assert r'b\x1b[31m.jpg: not a known image' in str(caught.value)
    assert '\x1b' not in str(caught.value)

    def refuse(path):
        raise PermissionError(13, 'Permission denied', str(path))

    monkeypatch.setattr(cache_folder.os, 'scandir', refuse)
    with pytest.raises(
        UserError, match=r'cannot be listed \(Permission denied\): make it readable'
    ):
        list(list_images(images, {}))


def test_a_pipe_is_no_list_of_names(tmp_path):
    os.mkfifo(tmp_path / 'list.txt')
    with pytest.raises(UserError, match=r'cannot be read \(it is a named pipe, not a file\)'):
        NameList(tmp_path / 'list.txt')
