"""A rank that ends, falls silent or hangs ends the others; one that works for long does not."""

import os
import signal
import time

import numpy as np
import pytest
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, MODELS, TRANSFORMS

from tests.helpers.toy_run import (
    ITERATIONS,
    LONG,
    ToyModel,
    log_file,
    start,
    wait,
    wait_for_steps,
)
from ttl_mm.engine.guards.stall import Peers, Report, silence_in_words
from ttl_mm.engine.state import exit_codes
from ttl_mm.engine.state.exit_codes import STALLED, USER_ERROR
from ttl_mm.errors import UserError

BREAK = "custom_hooks = [dict(type='BreakHook')]\n"
BREAK_EARLY = "model = dict(type='BreakModel')\n"
SILENCE = "default_hooks.update(stall=dict(type='ttl_mm.StallHook', silence=4))\n"


def test_reports_tell_silent_ranks_from_slow_ones():
    peers = Peers(now=0.0)
    peers.see({0: Report(1, 5, 0), 1: Report(1, 5, 0)}, now=1.0)
    peers.see({0: Report(9, 6, 0), 1: Report(1, 5, 0)}, now=8.0)
    assert peers.silent(now=9.0, seconds=7.5) == [1]
    assert peers.behind() == ([1], 5)
    assert peers.progress == 8.0
    peers.see({0: Report(10, 6, 0), 1: Report(2, 5, 0)}, now=20.0)
    assert (peers.silent(21.0, 7.5), peers.progress) == ([], 8.0)
    peers.see({0: Report(11, 6, 1), 1: Report(3, 5, 0)}, now=30.0)
    assert peers.progress == 30.0  # a sign of life


@HOOKS.register_module(force=True)
class BreakHook(Hook):
    """Rank 0 has an error; rank 1 is blocked for good, as in a collective of NCCL."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == 6:
            if runner.rank == 0:
                raise UserError('the disk is full')
            time.sleep(1000)


@MODELS.register_module(force=True)
class BreakModel(ToyModel):
    """The same before training has begun, while ranks build the model."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        if os.environ['RANK'] == '0':
            raise UserError('the weights are not on this machine')
        time.sleep(1000)


def test_one_rank_and_several_are_named_in_the_right_number():
    assert silence_in_words([1]) == 'rank 1 does not answer, it is stopped or gone'
    assert silence_in_words([1, 2]) == 'ranks 1, 2 do not answer, they are stopped or gone'


@pytest.mark.parametrize('images', [44], indirect=True)
@pytest.mark.parametrize('more', [BREAK, BREAK_EARLY], ids=['in training', 'before'])
def test_an_error_of_one_rank_ends_all_with_its_code(tmp_path, toy_config, more):
    def share_exit_file():
        os.environ['TTL_EXIT_FILE'] = str(tmp_path / 'exit')
        exit_codes.LOOK = exit_codes.GRACE = 0.5  # seconds

    work = tmp_path / 'work'
    pids = start(toy_config(LONG, timeout=600, more=more), work, 2, share_exit_file)
    assert wait(pids, seconds=60) == [USER_ERROR, USER_ERROR]
    assert (tmp_path / 'exit').read_text() == f'{USER_ERROR} 0\n'
    assert f'rank 0 has ended with code {USER_ERROR}' in log_file(work, rank=1).read_text()


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_silent_rank_is_named_long_before_the_time_out(tmp_path, toy_config):
    work = tmp_path / 'work'
    pids = start(toy_config(LONG, timeout=600, more=SILENCE), work, ranks=2)
    wait_for_steps(work)
    os.kill(pids[1], signal.SIGSTOP)
    assert wait([pids[0]], seconds=40) == [STALLED]
    os.kill(pids[1], signal.SIGKILL)
    wait([pids[1]])
    assert 'rank 1 does not answer, it is stopped or gone' in log_file(work).read_text()


@TRANSFORMS.register_module(force=True)
class SlowTransform:
    """Takes its time with every image."""

    def __call__(self, results):
        time.sleep(0.15)
        return {**results, 'img': results['img'].astype(np.float32) / 255}


PROBE = """
labeled = dict(
    type='ttl_mm.ImageFolder', data_root=train_dataloader['dataset']['data_root'], with_label=True,
    pipeline=[dict(type='LoadImageFromFile'), dict(type='SlowTransform'), dict(type='PackInputs')],
)
probe = dict(type='ttl_mm.ProbeHook', train=labeled, test=labeled, batch_size=4, interval=9)
default_hooks.update(probe=probe)
"""


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_probe_that_takes_longer_than_the_time_out_is_no_stall(tmp_path, toy):
    """Twice 6.6 s, with a time-out of 4 s."""
    few = ITERATIONS.replace('20', '2')
    assert toy(ranks=2, loop=few, timeout=4, more=PROBE) == [0, 0]
