"""The cache is bounded, shared by processes, and never gives an archive that is not whole."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.store import content
from ttl_mm.files.stores import cache
from ttl_mm.files.stores.cache import cache_bound, is_cached, open_remote
from ttl_mm.files.stores.remote import RemoteFile, StoreError
from ttl_mm.files.stores.url import place_of, store_root

SHARD = 20480  # bytes of each shard on the disk
READ = """
import sys, time
from pathlib import Path
from ttl_mm.files.stores.cache import open_remote
for path in sys.argv[1:]:
    with open_remote(Path(path)) as file:
        assert len(file.read()) == {size}
print('read')
"""


def shard(store, number: int):
    return place_of(f'{store.url}/set/{number:03}.tar')


def start(*paths) -> subprocess.Popen:
    command = [sys.executable, '-c', READ.format(size=SHARD), *map(str, paths)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def read(store, number: int) -> bytes:
    with open_remote(shard(store, number)) as file:
        return file.read()


def bound_to(monkeypatch, shards: float) -> None:
    monkeypatch.setattr(cache, 'cache_bound', lambda: int(shards * SHARD))


def kept(store) -> list[int]:
    return [i for i in range(4) if shard(store, i).exists()]


def test_the_bound_is_a_setting(monkeypatch):
    assert cache_bound() == 50 * 10**9
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', '2TB')
    assert cache_bound() == 2 * 10**12
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', 'much')
    with pytest.raises(cache.UserError, match="TTL_STORE_CACHE_SIZE: 'much' is no size"):
        cache_bound()


def test_the_archives_that_were_not_used_for_longest_go_first(store, monkeypatch):
    bound_to(monkeypatch, 2.5)
    for number in (0, 1):
        assert content(number, 0) in read(store, number)
        os.utime(shard(store, number), ns=(number * 10**9, shard(store, number).stat().st_mtime_ns))
    assert is_cached(shard(store, 0))  # and is used last from now on
    read(store, 2)
    assert kept(store) == [0, 2]
    assert not is_cached(shard(store, 1))


def test_what_is_read_is_not_removed(store, monkeypatch):
    bound_to(monkeypatch, 2.5)
    with open_remote(shard(store, 0)) as oldest:
        for number in (1, 2, 3):
            read(store, number)
        assert kept(store) == [0, 3]
        assert content(0, 0) in oldest.read()
    read(store, 1)
    assert kept(store) == [1, 3]


def test_an_archive_larger_than_the_cache_and_a_cache_in_use_are_errors(store, monkeypatch):
    bound_to(monkeypatch, 0.5)
    with pytest.raises(StoreError, match='archive of 20,480 bytes, and the cache may take 10,240'):
        read(store, 0)
    bound_to(monkeypatch, 1.5)
    monkeypatch.setattr(cache, 'PATIENCE', 0.2)
    full = pytest.raises(StoreError, match='is full of archives that other processes')
    with open_remote(shard(store, 0)), full:
        read(store, 1)


def test_processes_fetch_an_archive_once_and_share_it(store):
    store.always = 'slow'
    paths = [shard(store, 0), shard(store, 1)]
    processes = [start(*paths), start(*reversed(paths)), start(*paths)]
    assert [p.communicate(timeout=60)[0] for p in processes] == [b'read\n'] * 3
    assert sorted(store.transfers) == ['set/000.tar', 'set/001.tar']


def test_what_a_killed_process_left_is_removed_and_fetched_again(store, monkeypatch):
    bound_to(monkeypatch, 1.5)
    store.faults['set/000.tar'] = ['stalls']
    process = start(shard(store, 0))
    folder, deadline = shard(store, 0).parent, time.monotonic() + 30
    while not any(p.stat().st_size for p in folder.glob('.*.partial')):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not shard(store, 0).exists()
    assert content(1, 0) in read(store, 1)  # its space is free again
    assert not list(folder.glob('.*.partial'))
    assert content(0, 0) in read(store, 0)


def test_an_archive_that_was_cut_short_on_the_disk_is_fetched_again(store):
    whole = read(store, 0)
    time_of_it = shard(store, 0).stat().st_mtime_ns
    shard(store, 0).write_bytes(whole[:-512])
    os.utime(shard(store, 0), ns=(0, time_of_it))
    assert read(store, 0) == whole
    assert len(store.transfers) == 2


def test_a_damaged_note_is_asked_for_again(store):
    whole = read(store, 0)
    notes = [shard(store, 0).with_name(f'.000.tar.{kind}') for kind in ('json', 'sha256')]
    for damage in (b'', b'{', b'[1]', b'null', b'\xff\x00', b'{"size": 3}', b'{"time": "x"}',
                   b'{"size": "3", "tag": 1, "hashes": []}', b'[' * 10**5):  # fmt: skip
        for note in notes:
            note.write_bytes(damage)
        shard(store, 0).unlink()
        assert read(store, 0) == whole, damage
        assert RemoteFile(**json.loads(notes[0].read_text())).size == SHARD
        assert json.loads(notes[1].read_text())['sha256'] == hashlib.sha256(whole).hexdigest()


def test_a_note_of_a_hash_that_nothing_here_computes_is_passed_over(store):
    whole = read(store, 0)
    note = shard(store, 0).with_name('.000.tar.json')
    note.write_text(json.dumps(json.loads(note.read_text()) | {'hashes': {'crc64': '0'}}))
    shard(store, 0).unlink()
    assert read(store, 0) == whole
    assert len(store.transfers) == 2


def test_others_cannot_write_into_the_cache(store):
    read(store, 0)
    assert store_root().stat().st_mode & 0o077 == 0
