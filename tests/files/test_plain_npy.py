import numpy as np
import pytest

from ttl_mm.files.plain_npy import map_npy


def read(path):
    with path.open('rb') as file:
        return map_npy(file)


def test_arrays_are_read_as_by_numpy_and_outlive_the_file(tmp_path):
    path = tmp_path / 'a.npy'
    for array in (np.eye(3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 4))):
        np.save(path, array)
        np.testing.assert_array_equal(read(path), np.load(path))


def test_claims_are_compared_with_the_file(tmp_path):
    path = tmp_path / 'a.npy'
    np.save(path, np.zeros((2, 3), np.float32))
    good = path.read_bytes()
    for old, new, message in (
        (b'(2, 3)', b'(2, 9)', 'claims'),
        (b'(2, 3)', b'(2,-3)', 'shape'),
        (b'(2, 3)', b'2 + 3 ', 'malformed'),
        (b'(2, 3)', b'((2, 3', 'no description'),
        (b"'<f4'", b"'|O8'", 'of kind object'),
        (b"'<f4'", b"',f4'", 'no description'),
        (b'\x01\x00', b'\x09\x00', 'version'),
        (b'NUMPY', b'BUMPY', 'magic'),
        (good[-4:], b'', 'claims'),
    ):
        path.write_bytes(
            new.join(good.rsplit(old, 1)) if old == good[-4:] else good.replace(old, new)
        )
        with pytest.raises(ValueError, match=message):
            read(path)
