"""Several processes without a GPU, and what happens when one of them no longer answers."""

import os
import signal
import time

import pytest

from tests.helpers.toy_run import LONG, STOP, curve, log_file, start, wait, wait_for_steps
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED

pytestmark = pytest.mark.parametrize('images', [44], indirect=True)


def test_sync_bn_falls_back_to_bn(tmp_path, toy):
    assert toy(ranks=2, more='model.update(sync_bn=True)') == [0, 0]
    assert 'SyncBN layers are BN layers' in log_file(tmp_path / 'work').read_text()
    assert len(curve(tmp_path / 'work', rank=1)) == 20


def test_a_killed_rank_ends_the_others(tmp_path, toy_config):
    pids = start(toy_config(LONG, workers=1), tmp_path / 'work', ranks=2)
    wait_for_steps(tmp_path / 'work')
    os.kill(pids[1], signal.SIGKILL)
    killed = time.monotonic()
    assert wait(pids) == [1, -signal.SIGKILL]
    assert time.monotonic() - killed < 10


@pytest.mark.parametrize('stopped', [0, 1])
def test_a_stopped_rank_is_named_after_the_time_out(tmp_path, toy_config, stopped):
    work = tmp_path / 'work'
    pids = start(toy_config(LONG, timeout=3), work, ranks=2)
    wait_for_steps(work)
    os.kill(pids[stopped], signal.SIGSTOP)
    began = time.monotonic()
    assert wait([pids[1 - stopped]]) == [STALLED]
    assert time.monotonic() - began < 3 + 15
    os.kill(pids[stopped], signal.SIGKILL)
    wait([pids[stopped]])
    log = log_file(work, rank=1 - stopped).read_text()
    # rank 0 keeps the store of a job that no launcher started
    assert ('rank 1 does not answer' if stopped else 'rank 0, which keeps the store') in log


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize('rank', [0, 1])
def test_a_signal_to_any_rank_saves_on_all(tmp_path, toy, number, rank):
    stop, work = STOP.format(f'7, number={int(number)}, rank={rank}'), tmp_path / 'work'
    assert toy(ranks=2, more=stop) == [PREEMPTED, PREEMPTED]
    (path, seal), *_ = sealed_files(work)
    assert (path.name, seal.iteration) == ('iter_8.pth', 8)  # the vote is counted one step later
    assert sorted(curve(work, rank=1)) == list(range(1, 9))


def test_fewer_ranks_on_resume_go_on_with_a_warning(tmp_path, toy):
    assert toy(ranks=2, more=STOP.format(7)) == [PREEMPTED, PREEMPTED]
    assert toy() == [0]
    warning = 'world size 2 -> 1, iterations per epoch 5 -> 11'
    assert warning in log_file(tmp_path / 'work').read_text()
