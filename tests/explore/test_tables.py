"""Tables of features that come from elsewhere: read as they were written, or one sentence."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tests.helpers.odd_files import odd_files
from ttl_mm.errors import UserError
from ttl_mm.explore.tables import FORMATS, read_table, write_table

NAMES = ['a.jpg', 'folder/b, c.jpg', 'bild \udcfc.jpg']


@pytest.fixture
def tables(tmp_path):
    features = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    for suffix in FORMATS[1:]:
        write_table(tmp_path / f'a{suffix}', NAMES, np.ones((3, 3), int), np.ones((3, 2)), features)
    return tmp_path, features


def test_what_is_written_is_read(tables):
    folder, features = tables
    for suffix in FORMATS[1:]:
        found, names = read_table(folder / f'a{suffix}')
        np.testing.assert_array_equal(found, features)
        assert names[:2] == NAMES[:2]
        assert suffix == '.parquet' or names == NAMES  # which has no bytes that are not UTF-8


def test_damage_is_one_sentence(tables):
    folder, _ = tables
    csv, npy, names = (folder / name for name in ('a.csv', 'a.npy', 'a.paths.txt'))
    rows, paths = csv.read_text(errors='surrogateescape'), names.read_bytes()
    for path, content, message in (
        (csv, b'a,b\n', 'has no columns path'),
        (csv, b'path,f0\na,nan\n', 'not finite'),
        (csv, b'path,f0\na,word\n', 'could not convert'),
        (csv, b'path,f0\na,1,2\n', 'has not 2 values'),
        (csv, b'path,f0\n' + b'a' * 2**18 + b',1\n', 'field larger'),
        (csv, rows.splitlines()[0].encode() + b'\n"', 'has not 10 values'),
        (npy, npy.read_bytes()[:-1], 'claims'),
        (folder / 'a.parquet', (folder / 'a.parquet').read_bytes()[:-9], 'no table of features'),
        (folder / 'a.parquet', b'PAR1', 'no table of features'),
    ):
        before = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_table(path)
        path.write_bytes(before)
    names.write_bytes(paths + b'one more\n')
    with pytest.raises(UserError, match='3 rows of features and 4 paths'):
        read_table(npy)
    for _, odd in odd_files(folder):
        table = odd.with_name(odd.name + '.csv')
        table.symlink_to(odd)
        with pytest.raises(UserError, match='not a file'):
            read_table(table)
    with pytest.raises(UserError, match='no file of embeddings'):
        read_table(folder / 'a.txt')


def test_rows_that_a_parquet_file_repeats_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr('ttl_mm.explore.tables.FEW', 1000)
    path, same = tmp_path / 'a.parquet', np.zeros((100_000, 8), np.float32)
    sizes = np.ones((len(same), 3), int)
    write_table(path, ['a.jpg'] * len(same), sizes, same[:, :2], same)
    with pytest.raises(UserError, match=r'claims 100000 rows in \d+ bytes'):
        read_table(path)
    lists = pyarrow.table({'path': ['a'], 'embedding': [[1.0, 2.0]]})
    pyarrow.parquet.write_table(lists, path)
    with pytest.raises(UserError, match='not a list of fixed size'):
        read_table(path)
