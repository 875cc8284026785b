"""One trainer per work dir: real processes, killed and stopped."""

import json
import os
import signal
import time

import pytest

from tests.helpers.forked import fork, wait
from tests.helpers.odd_files import odd_files
from tests.helpers.toy_run import LONG, log_file, start, wait_for_steps
from ttl_mm.engine.state import work_dir_lock
from ttl_mm.engine.state.work_dir_lock import NAME, WorkDirLock
from ttl_mm.errors import UserError


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(work_dir_lock, 'BEAT', 0.05)
    monkeypatch.setattr(work_dir_lock, 'SILENCE', 0.4)
    monkeypatch.setattr(work_dir_lock, '_POLL', 0.02)


def in_child(job):
    """The exit code of a forked process that does ``job``."""

    def code_of_job():
        try:
            return job()
        except UserError:
            return 2

    return wait([fork(code_of_job)], 20)[0]


def test_the_second_is_refused_until_the_first_is_done(tmp_path):
    lock = WorkDirLock(tmp_path)
    lock.acquire()
    held = json.loads((tmp_path / NAME).read_text())
    assert (held['pid'], held['host']) == (os.getpid(), os.uname().nodename)
    assert in_child(WorkDirLock(tmp_path).acquire) == 2
    assert in_child(lock.release) == 0  # a child of a run, as its data workers are
    assert in_child(WorkDirLock(tmp_path).acquire) == 2
    lock.release()
    assert os.listdir(tmp_path) == []
    assert in_child(WorkDirLock(tmp_path).acquire) == 0


def test_a_crash_does_not_block_the_next_run_and_ids_are_used_again(tmp_path):
    assert in_child(lambda: WorkDirLock(tmp_path).acquire() or os._exit(0)) == 0
    assert (tmp_path / NAME).exists()
    lock = WorkDirLock(tmp_path)
    lock.acquire()
    (tmp_path / NAME).write_text(json.dumps({**lock.me, 'pid': 1, 'born': '-1'}))
    WorkDirLock(tmp_path).acquire()


def test_a_run_of_another_machine_is_judged_by_its_touches(tmp_path, quick, capsys, monkeypatch):
    lock, here = WorkDirLock(tmp_path), work_dir_lock._identity()
    with monkeypatch.context() as patch:
        far = {**here, 'machine': 'far', 'host': 'far'}
        patch.setattr(work_dir_lock, '_identity', lambda: far)
        lock.acquire()
    with pytest.raises(UserError, match=rf'in use: a run on far \(process {os.getpid()}, started'):
        WorkDirLock(tmp_path).acquire()
    assert 'waiting up to' in capsys.readouterr().out
    lock._done.set()  # it crashes
    time.sleep(0.1)
    began = time.monotonic()
    WorkDirLock(tmp_path).acquire()
    assert time.monotonic() - began >= 0.4
    (tmp_path / NAME).write_text('damaged')
    WorkDirLock(tmp_path).acquire()


def test_a_run_that_was_taken_for_dead_saves_nothing_more(tmp_path, quick):
    first, second = WorkDirLock(tmp_path), WorkDirLock(tmp_path)
    first.acquire()
    first.check()
    second.acquire()  # of the same process, which has begun another run
    time.sleep(0.2)
    with pytest.raises(UserError, match='was taken over by a run on'):
        first.check()
    first.release()
    assert (tmp_path / NAME).exists()
    second.check()


def test_what_is_no_lock_is_named(tmp_path):
    (tmp_path / 'large').write_bytes(bytes(5000))
    for reason, path in [*odd_files(tmp_path), ('it has 5000 bytes', tmp_path / 'large')]:
        folder = tmp_path / f'work-{path.name}'
        folder.mkdir()
        (folder / NAME).symlink_to(path)
        with pytest.raises(UserError, match=rf'{NAME} is no lock of a run \(.*{reason}'):
            WorkDirLock(folder).acquire()
        assert [p.name for p in folder.iterdir()] == [NAME]


def test_without_hard_links(tmp_path, monkeypatch):
    def link(*paths):
        raise PermissionError(1, 'no hard links here')

    monkeypatch.setattr(os, 'link', link)
    lock = WorkDirLock(tmp_path)
    lock.acquire()
    assert in_child(WorkDirLock(tmp_path).acquire) == 2
    lock.release()
    assert os.listdir(tmp_path) == []


def test_many_at_once_and_one_wins(tmp_path):
    """Ten processes find the lock of a dead one."""
    assert in_child(lambda: WorkDirLock(tmp_path).acquire() or os._exit(0)) == 0
    read, write = os.pipe()

    def contend():
        os.close(write)
        os.read(read, 1)  # returns when the parent closes its end
        try:
            WorkDirLock(tmp_path).acquire()
        except UserError:
            return 2
        return time.sleep(0.5)

    pids = [fork(contend) for _ in range(10)]
    os.close(read)
    os.close(write)
    assert sorted(wait(pids, 20)) == [0] + 9 * [2]


def test_two_runs_in_one_work_dir(tmp_path, toy_config):
    config, work = toy_config(LONG), tmp_path / 'work'
    first = start(config, work)
    wait_for_steps(work, 1)
    before = sorted(work.rglob('*'))
    for resume in ('auto', None):
        assert wait(start(config, work, resume=resume)) == [2]
    assert f'is in use: a run on {os.uname().nodename}' in log_file(work).read_text()
    after = sorted(work.rglob('*'))
    assert [p for p in after if p not in before and p.suffix != '.pth'] == []
    os.kill(first[0], signal.SIGTERM)
    assert wait(first) == [75]
    assert not (work / NAME).exists()
    assert wait(start(config, work, resume=None)) == [2]  # it has checkpoints
