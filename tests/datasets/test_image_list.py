import gzip
import os

from ttl_mm.datasets.image_list import list_digest, list_path, match_lists, read_list, write_list

OLD = ['a/1.jpg', 'a/2.jpg', 'b/3.jpg', 'b/ 4\udcff.jpg']


def test_a_list_comes_back_or_is_known_to_be_damaged(tmp_path):
    digest = list_digest(OLD)
    assert digest != list_digest(OLD[::-1])
    path = write_list(tmp_path, digest, OLD)
    assert read_list(tmp_path, digest) == OLD
    first = path.stat().st_mtime_ns
    write_list(tmp_path, digest, OLD)
    assert path.stat().st_mtime_ns == first
    assert os.listdir(tmp_path) == [path.name]
    for content in (
        path.read_bytes()[:-9],
        b'x',
        gzip.compress(b'a/1.jpg\n'),
        path.read_bytes()[:12] + b'x' * 40,
    ):
        path.write_bytes(content)
        assert read_list(tmp_path, digest) is None
    endless_name, many_names = bytes(2**24), (b'a' * 99 + b'\n') * 2**16
    for bomb in (endless_name, many_names):
        path.write_bytes(gzip.compress(bomb))
        assert read_list(tmp_path, digest) is None
    os.remove(path)
    os.mkfifo(path)
    assert read_list(tmp_path, digest) is None
    assert read_list(tmp_path, 'none') is None
    assert list_path(tmp_path, digest) == path


def test_images_are_found_again_by_name():
    same = match_lists(OLD, OLD[::-1])
    assert (same.new_index.tolist(), same.removed, same.added) == ([3, 2, 1, 0], [], 0)
    changed = match_lists(OLD, ['new.jpg', 'b/3.jpg', 'a/1.jpg', 'other.jpg'])
    assert changed.new_index.tolist() == [2, -1, 1, -1]
    assert (changed.removed, changed.added) == (OLD[1::2], 2)
