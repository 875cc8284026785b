import os

import pytest

from tests.helpers.odd_files import make_socket, odd_files
from ttl_mm.errors import UserError
from ttl_mm.files.regular import is_regular, open_regular, read_bytes, read_text, size_of


def test_only_regular_files_are_opened_and_at_once(tmp_path):
    for kind, path in odd_files(tmp_path):
        with pytest.raises(OSError, match=f'it is {kind}, not a file'):
            open_regular(path, 100)
        assert not is_regular(path)
    with pytest.raises(OSError, match='No such device or address'):
        open_regular(make_socket(tmp_path / 's'), 100)
    (tmp_path / 'loop').symlink_to(tmp_path / 'loop')
    for path in (tmp_path / 'loop', tmp_path / ('x' * 300), tmp_path / 'none'):
        assert not is_regular(path)
        with pytest.raises(OSError, match=r'Too many levels|too long|No such file'):
            read_bytes(path)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / 'a'
    path.write_bytes(b'x' * 100)
    (tmp_path / 'link').symlink_to(path)
    assert read_bytes(tmp_path / 'link', 100) == b'x' * 100
    with pytest.raises(OSError, match='it has 100 bytes, 99 are allowed'):
        read_bytes(path, 99)
    with open_regular(path, 100) as file:
        with path.open('ab') as longer:
            longer.write(b'y')
        assert size_of(file) == 101
    assert len(os.listdir('/proc/self/fd')) < 100  # nothing stays open
    path.write_bytes(b'\xef\xbb\xbfa\r\nb\n')
    assert read_text(path) == 'a\nb\n'
    path.write_bytes(b'\xff')
    with pytest.raises(ValueError, match='utf-8'):
        read_text(path)
    assert read_text(path, errors='replace') == '\ufffd'


def test_what_is_no_text_is_a_sentence_and_a_bad_value(tmp_path):
    """For those who ask about values, and for all others."""
    path = tmp_path / 'names.txt'
    path.write_bytes('Käse\n'.encode('latin-1'))
    for kind in (UserError, ValueError):
        with pytest.raises(kind, match=r'names\.txt is no text in UTF-8 .*save it as UTF-8'):
            read_text(path)
