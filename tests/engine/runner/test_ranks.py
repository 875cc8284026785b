"""Several processes without a GPU, and what happens when one of them no longer answers."""

import os
import signal

import pytest

from tests.helpers.toy_run import (
    ITERATIONS,
    LONG,
    STOP,
    curve,
    log_file,
    start,
    wait,
    wait_for_steps,
)
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.guards.stall import TIMEOUT
from ttl_mm.engine.runner import runner
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED

pytestmark = pytest.mark.parametrize('images', [44], indirect=True)


def test_sync_bn_falls_back_to_bn(tmp_path, toy):
    assert toy(ranks=2, more='model.update(sync_bn=True)') == [0, 0]
    assert 'SyncBN layers are BN layers' in log_file(tmp_path / 'work').read_text()
    assert len(curve(tmp_path / 'work', rank=1)) == 20


def test_a_collective_waits_longer_than_the_guard_without_a_time_in_the_config(tmp_path, toy):
    """NCCL's own time-out would end the run first, and name nobody."""
    waits = tmp_path / 'waits'

    def note_the_time() -> None:
        init = runner.init_gloo

        def noting(timeout):
            waits.write_text(str(timeout.total_seconds()))
            init(timeout)

        runner.init_gloo = noting

    few, silent = ITERATIONS.replace('20', '1'), "env_cfg = dict(dist_cfg=dict(backend='gloo'))\n"
    assert toy(ranks=2, loop=few, more=silent, prepare=note_the_time) == [0, 0]
    assert float(waits.read_text()) > 2 * TIMEOUT


def test_a_killed_rank_ends_the_others(tmp_path, toy_config):
    pids = start(toy_config(LONG, workers=1), tmp_path / 'work', ranks=2)
    wait_for_steps(tmp_path / 'work')
    os.kill(pids[1], signal.SIGKILL)
    # by the lost connection: a rank that waited for the time-out would end as STALLED
    assert wait(pids) == [1, -signal.SIGKILL]


def test_a_stopped_rank_is_named_after_the_time_out(tmp_path, toy_config):
    """Two runs side by side, since both do nothing but wait: rank 0 of one, rank 1 of the other."""
    config, works = toy_config(LONG, timeout=3), [tmp_path / 'first', tmp_path / 'second']
    runs = [start(config, work, ranks=2) for work in works]
    for stopped, (pids, work) in enumerate(zip(runs, works)):
        wait_for_steps(work)
        os.kill(pids[stopped], signal.SIGSTOP)
    assert wait([runs[0][1], runs[1][0]]) == [STALLED, STALLED]
    for stopped, pids in enumerate(runs):
        os.kill(pids[stopped], signal.SIGKILL)
        wait([pids[stopped]])
    # rank 0 keeps the store of a job that no launcher started
    first, second = log_file(works[0], rank=1).read_text(), log_file(works[1], rank=0).read_text()
    assert 'rank 0 or its launcher is gone' in first
    assert 'rank 1 does not answer' in second
    # the time-out of the config has decided, and not the longer silence of a rank
    assert all('no rank made a step for 3 s; ' in log for log in (first, second))


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize('rank', [0, 1])
def test_a_signal_to_any_rank_saves_on_all(tmp_path, toy, number, rank):
    stop, work = STOP.format(f'7, number={int(number)}, rank={rank}'), tmp_path / 'work'
    assert toy(ranks=2, more=stop) == [PREEMPTED, PREEMPTED]
    (path, seal), *_ = sealed_files(work)
    assert (path.name, seal.iteration) == ('iter_8.pth', 8)  # the vote is counted one step later
    assert sorted(curve(work, rank=1)) == list(range(1, 9))


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_run_and_its_workers_saves(tmp_path, toy_config, number):
    """systemd, some batch systems and `kill -- -PID` signal all processes of a group."""
    work = tmp_path / 'work'
    (pid,) = start(toy_config(LONG, workers=2), work, prepare=os.setpgrp)
    wait_for_steps(work, ranks=1)
    os.killpg(pid, number)
    assert wait([pid]) == [PREEMPTED]
    assert sealed_files(work)[0][1].iteration == max(curve(work))


def test_fewer_ranks_on_resume_go_on_with_a_warning(tmp_path, toy):
    """One process does the work of two ranks; three ranks are another run."""
    assert toy(ranks=2, more=STOP.format(7)) == [PREEMPTED, PREEMPTED]
    assert toy(more=STOP.format(12)) == [PREEMPTED]
    log = log_file(tmp_path / 'work').read_text()
    assert '1 process for the work of 2 ranks, 2 each' in log
    assert 'Not the same run any more' not in log
    assert toy(ranks=3) == [0, 0, 0]
    assert (
        'world size 2 -> 3, iterations per epoch 5 -> 3' in log_file(tmp_path / 'work').read_text()
    )
