"""Whole or not there; a flipped bit shows; the newest valid one is found."""

import errno
import os
import resource
import signal
import stat

import pytest
import torch

from ttl_mm.checkpoint.sealed import (
    DamagedError,
    newest_valid,
    read_seal,
    read_sealed,
    remove_leftovers,
    sealed_files,
    verify,
    write_checkpoint,
)
from ttl_mm.errors import UserError

STATE = {'weights': torch.arange(5000.0), 'meta': {'iter': 7, 'words': ['a', None, 1.5]}}


@pytest.fixture
def path(tmp_path):
    write_checkpoint(tmp_path / 'iter_7.pth', STATE, iteration=7, epoch=1)
    return tmp_path / 'iter_7.pth'


def flip_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_round_trip_here_and_in_any_other_program(path):
    state = read_sealed(path)
    assert torch.equal(state['weights'], STATE['weights'])
    assert state['meta'] == STATE['meta']
    assert read_seal(path)[:2] == (7, 1)
    assert [p.name for p in path.parent.iterdir()] == ['iter_7.pth']
    for mmap in (False, True):
        weights = torch.load(path, weights_only=True, mmap=mmap)['weights']
        assert torch.equal(weights, STATE['weights'])


def test_every_flipped_bit_and_every_truncation_shows(path):
    size = path.stat().st_size
    for position in [*range(0, size, size // 97), *range(size - 130, size)]:
        flip_bit(path, position)
        with pytest.raises(DamagedError, match=str(path)):
            verify(path)
        flip_bit(path, position)
    verify(path)
    whole = path.read_bytes()
    for left in (0, 1, 100, 10_000, -1, -80):
        path.write_bytes(whole[:left])
        with pytest.raises(DamagedError, match=str(path)):
            verify(path)


def test_order_is_by_iteration_and_the_newest_whole_one_is_found(path):
    for iteration in (9, 11, 10):
        write_checkpoint(path.with_name(f'iter_{iteration}.pth'), STATE, iteration, 1)
    flip_bit(path.with_name('iter_11.pth'), 5000)
    path.with_name('best_x.pth').write_bytes(b'')
    found, problems = newest_valid(path.parent)
    assert found.name == 'iter_10.pth'
    assert all(any(name in problem for problem in problems) for name in ('iter_11', 'best_x'))
    assert [seal.iteration for _, seal in sealed_files(path.parent)] == [11, 10, 9, 7]


def test_a_run_starts_over_in_a_new_folder_and_never_when_all_are_damaged(path, tmp_path):
    assert newest_valid(tmp_path / 'new') == (None, [])
    flip_bit(path, 5000)
    with pytest.raises(UserError, match=r'iter_7\.pth is damaged'):
        newest_valid(path.parent)


def test_failed_writes_are_a_sentence_and_leave_the_old_file_alone(path):
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with pytest.raises(UserError, match=os.strerror(errno.EFBIG)):
            write_checkpoint(path, STATE, iteration=8, epoch=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with pytest.raises(UserError, match='could not be written'):
        write_checkpoint(path / 'iter_1.pth', STATE, 1, 0)  # below a file
    (path.parent / 'iter_8.pth.123.partial').write_bytes(b'half')
    remove_leftovers(path.parent)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_file_system_that_cannot_sync_folders_is_no_obstacle(tmp_path, monkeypatch):
    sync, path = os.fsync, tmp_path / 'iter_7.pth'

    def on_network(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, 'Invalid argument')
        sync(handle)

    monkeypatch.setattr(os, 'fsync', on_network)
    write_checkpoint(path, STATE, iteration=7, epoch=1)
    assert verify(path).iteration == 7
