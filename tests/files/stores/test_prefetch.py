"""Archives that will be needed are there before they are, and what is needed now stays."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ttl_mm.files.stores import cache, prefetch
from ttl_mm.files.stores.cache import open_remote
from ttl_mm.files.stores.listing import remote_archives
from ttl_mm.files.stores.prefetch import Prefetcher, _that_fit

SHARD = 20480  # bytes of each shard on the disk
OWNER = """
import sys, time
from pathlib import Path
from ttl_mm.files.stores.prefetch import Prefetcher
prefetcher = Prefetcher()
prefetcher.want([[Path(sys.argv[1])]])
print(prefetcher._process.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def shards(store):
    return remote_archives(f'{store.url}/set')


@pytest.fixture
def prefetcher():
    made = Prefetcher()
    yield made
    made.close()


def wait_until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_there(path) -> bool:
    return path.exists()


def test_archives_come_before_they_are_asked_for_and_the_newest_list_counts(
    store, shards, prefetcher
):
    prefetcher.want([[shards[2]], [shards[0]]])
    wait_until(lambda: is_there(shards[2]) and is_there(shards[0]))
    prefetcher.want([[shards[1]]])
    wait_until(lambda: is_there(shards[1]))
    assert not is_there(shards[3])
    assert sorted(store.transfers) == ['set/000.tar', 'set/001.tar', 'set/002.tar']
    for path in shards[:3]:
        open_remote(path).close()
    assert len(store.transfers) == 3


def test_what_is_wanted_outlives_what_is_not(store, shards, prefetcher, monkeypatch):
    for path in shards[:2]:
        open_remote(path).close()
    os.utime(shards[0], ns=(0, shards[0].stat().st_mtime_ns))  # the oldest
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', f'{2.5 * SHARD / 1e6:.6f}MB')
    prefetcher.want([[shards[0]], [shards[2]]])
    wait_until(lambda: is_there(shards[2]))
    assert [is_there(path) for path in shards] == [True, False, True, False]


def test_no_more_is_wanted_than_finds_room(shards, monkeypatch):
    def fit(number: float, *groups) -> list[int]:
        monkeypatch.setattr(prefetch, 'cache_bound', lambda: int(number * SHARD))
        found = _that_fit([[shards[i] for i in group] for group in groups])
        return [shards.index(type(shards[0])(path)) for path in found]

    assert fit(2.5, [3], [0], [1]) == [3, 0]
    assert fit(3.5, [3, 1], [0, 2]) == [3, 1, 0]
    assert fit(1.5, [3, 1], [0, 2]) == []  # not even what is read now
    assert fit(9, [3, 1], [0], [1, 3], [2]) == [3, 1, 0]  # the next epoch


def test_a_fault_is_left_to_who_reads(store, shards, prefetcher, monkeypatch, capfd):
    monkeypatch.setattr(cache, 'PATIENCE', 0.2)
    store.faults['set/000.tar'] = ['broken']
    prefetcher.want([[shards[0], shards[1]]])
    wait_until(lambda: is_there(shards[1]))
    open_remote(shards[0]).close()
    assert store.transfers.count('set/000.tar') == 2
    assert capfd.readouterr().err == ''


def test_nothing_is_started_where_nothing_is_wanted(prefetcher):
    prefetcher.want([])
    assert prefetcher._process is None


def test_it_ends_with_its_owner_also_a_killed_one(store, shards):
    command = [sys.executable, '-c', OWNER, str(shards[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        number = int(owner.stdout.readline())
        wait_until(lambda: is_there(shards[0]))
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f'/proc/{number}') or is_dead(number))


def is_dead(number: int) -> bool:
    with open(f'/proc/{number}/stat') as file:
        return file.read().rpartition(')')[2].split()[0] == 'Z'
