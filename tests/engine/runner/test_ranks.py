"""Several processes without a GPU, and what happens when one of them no longer answers."""

import os
import signal
import time

import pytest

from tests.helpers.toy_run import (
    curve,
    log_file,
    make_images,
    run,
    start,
    wait,
    wait_for_steps,
    write_config,
)
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED

LONG = "dict(type='IterBasedTrainLoop', max_iters=100000)"


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp('images'), 44)


def test_sync_bn_falls_back_to_bn(tmp_path, images):
    more = '\nmodel.update(sync_bn=True)\n'
    config = write_config(tmp_path / 'config.py', images, more=more)
    assert run(config, tmp_path / 'work', ranks=2) == [0, 0]
    assert 'SyncBN layers are BN layers' in log_file(tmp_path / 'work').read_text()
    assert len(curve(tmp_path / 'work', rank=1)) == 20


def test_a_killed_rank_ends_the_others(tmp_path, images):
    config = write_config(tmp_path / 'config.py', images, LONG, workers=1)
    pids = start(config, tmp_path / 'work', ranks=2)
    wait_for_steps(tmp_path / 'work')
    os.kill(pids[1], signal.SIGKILL)
    killed = time.monotonic()
    codes = wait(pids)
    assert time.monotonic() - killed < 10
    assert codes == [1, -signal.SIGKILL]


@pytest.mark.parametrize('stopped', [0, 1])
def test_a_stopped_rank_is_named_after_the_time_out(tmp_path, images, stopped):
    config = write_config(tmp_path / 'config.py', images, LONG, timeout=3)
    work = tmp_path / 'work'
    pids = start(config, work, ranks=2)
    wait_for_steps(work)
    os.kill(pids[stopped], signal.SIGSTOP)
    began = time.monotonic()
    survivor = pids[1 - stopped]
    assert wait([survivor]) == [STALLED]
    assert time.monotonic() - began < 3 + 15
    os.kill(pids[stopped], signal.SIGKILL)
    wait([pids[stopped]])
    log = log_file(work, rank=1 - stopped).read_text()
    # rank 0 keeps the store of a job that no launcher started
    assert ('rank 1 does not answer' if stopped else 'rank 0, which keeps the store') in log


def test_fewer_ranks_on_resume_go_on_with_a_warning(tmp_path, images):
    stop = "\ncustom_hooks = [dict(type='SignalHook', at=7)]\n"
    config = write_config(tmp_path / 'config.py', images, more=stop)
    work = tmp_path / 'work'
    assert run(config, work, ranks=2) == [PREEMPTED, PREEMPTED]
    assert run(write_config(tmp_path / 'config.py', images), work) == [0]
    assert 'world size 2 -> 1, iterations per epoch 5 -> 11' in log_file(work).read_text()
