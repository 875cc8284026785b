import os
import pickle
import random
from functools import partial
from itertools import product

import pytest

from tests.helpers.forked import fork, wait
from ttl_mm.datasets import name_list
from ttl_mm.datasets.name_list import BLOCK, BYTE_ORDER_MARK, NameList, write_name_list
from ttl_mm.errors import UserError


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(name_list, 'CHUNK', 97)


def random_names(count: int) -> list[str]:
    rng = random.Random(count)
    letters = 'ab/ ._é漢\udcff'  # the last one stands for a byte that is not UTF-8
    return [''.join(rng.choices(letters, k=rng.randint(1, 20))) for _ in range(count)]


@pytest.mark.usefixtures('small_chunks')
@pytest.mark.parametrize('line_end', ['\n', '\r\n'])
@pytest.mark.parametrize('mark', [b'', BYTE_ORDER_MARK])
def test_equals_a_list_of_lines(tmp_path, line_end, mark):
    path = tmp_path / 'names.txt'
    for count, tail in product([1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7], range(3)):
        expected = random_names(count)
        path.write_bytes(mark + os.fsencode(line_end.join(expected) + tail * line_end))
        names = NameList(path)
        assert len(names) == count
        assert list(names) == expected
        assert [names[i] for i in range(-count, count)] == expected + expected
        for outside in (count, -count - 1):
            with pytest.raises(IndexError):
                names[outside]


def test_round_trip_through_write_and_pickle_of_names_that_are_a_line(tmp_path):
    expected = random_names(1000)
    write_name_list(tmp_path / 'names.txt', expected)
    names = pickle.loads(pickle.dumps(NameList(tmp_path / 'names.txt')))
    assert list(names) == expected
    for name in ('', 'two\nlines', 'carriage\rreturn'):
        with pytest.raises(UserError, match='cannot stand in a list'):
            write_name_list(tmp_path / 'other.txt', ['a', name])
    assert [path.name for path in tmp_path.iterdir()] == ['names.txt']


def test_forked_children_share_a_small_list_that_closes_its_file(tmp_path):
    write_name_list(tmp_path / 'names.txt', map(str, range(19_200)))
    names = NameList(tmp_path / 'names.txt')

    def look_up(names, seed):
        indices = random.Random(seed).choices(range(19_200), k=5_000)
        return any(names[i] != str(i) for i in indices)

    assert wait([fork(partial(look_up, names, seed)) for seed in range(3)]) == [0, 0, 0]
    assert names.nbytes == 19_200 // 8  # an eighth of a byte per name
    file = names._file
    del names
    assert file.closed


BAD = [
    (b'', 'holds no names'),
    (b'\n\n', 'holds no names'),
    (b'\xef\xbb\xbf\n', 'holds no names'),
    (b'a\n\nb\n', 'line 2 of .* is empty'),
    (b'a\r\nb\r\n\r\nc\r\n', 'line 3 of .* is empty'),
    (b'\nb\n', 'line 1 of .* is empty'),
    (b'x' * 60 + b'\n' + b'y' * 60 + b'\n\nz\n', 'line 3 of .* is empty'),
    (b'a\0b\n', 'binary file'),
    (b'x' * 98, 'no line end in 97 bytes'),
]


@pytest.mark.usefixtures('small_chunks')
def test_bad_and_changed_files_are_named(tmp_path):
    for content, message in BAD:
        (tmp_path / 'names.txt').write_bytes(content)
        with pytest.raises(UserError, match=message):
            NameList(tmp_path / 'names.txt')
    with pytest.raises(UserError, match=r'nowhere\.txt cannot be read'):
        NameList(tmp_path / 'nowhere.txt')
    write_name_list(tmp_path / 'names.txt', ['first', 'second'])
    names = NameList(tmp_path / 'names.txt')
    with open(tmp_path / 'names.txt', 'r+b') as file:
        file.truncate(3)
    with pytest.raises(UserError, match='cut short'):
        names[0]
    with pytest.raises(UserError, match='has changed'):
        pickle.loads(pickle.dumps(names))


def test_two_machines_with_equal_process_ids_write_one_list_at_a_time(tmp_path, monkeypatch):
    """Containers on two nodes share a home, and number their processes alike."""
    monkeypatch.setattr(os, 'getpid', lambda: 7)
    path = tmp_path / 'names.txt'

    def slowly():
        yield 'first of one'
        write_name_list(path, ['of another'])
        assert list(NameList(path)) == ['of another']
        yield 'second of one'

    write_name_list(path, slowly())
    assert list(NameList(path)) == ['first of one', 'second of one']
    assert list(tmp_path.iterdir()) == [path]
