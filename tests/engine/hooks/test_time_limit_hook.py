from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

from tests.helpers.toy_run import OUR_VIEWS, STOP, assert_same_run, curve, log_file
from ttl_mm.engine.hooks import time_limit_hook
from ttl_mm.engine.hooks.time_limit_hook import fitting_steps
from ttl_mm.errors import UserError

PLANNED = 60  # steps, as if each took a second
LOOP = f"dict(type='IterBasedTrainLoop', max_iters={PLANNED})"
NO_SAVES = "dict(type='ttl_mm.CheckpointHook')"
MORE = """
param_scheduler = [dict(type='CosineAnnealingLR', T_max={planned}, end={planned}, by_epoch=False)]
default_hooks['limit'] = dict(type='ttl_mm.TimeLimitHook', seconds={seconds})
default_hooks['pace'] = dict(type='PaceHook', change={change})
"""
clock = [0.0]


@HOOKS.register_module(force=True)
class PaceHook(Hook):
    """Let a step take a second, and 0.5 or 2 seconds from some step on; note the rates."""

    priority = 'VERY_HIGH'

    def __init__(self, change: tuple[int, float]) -> None:
        self.first, self.seconds = change

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        clock[0] += self.seconds if runner.iter + 1 > self.first else 1.0
        with open(Path(runner.work_dir) / 'rates.txt', 'a') as file:
            file.write(f'{runner.optim_wrapper.get_lr()["lr"][0]}\n')


@pytest.fixture(autouse=True)
def our_clock(monkeypatch):
    clock[0] = 0.0
    monkeypatch.setattr(time_limit_hook, 'time', SimpleNamespace(time=lambda: clock[0]))
    monkeypatch.delenv(time_limit_hook.STARTED, raising=False)


def train(toy, tmp_path, change, work='work', seconds=PLANNED, stop='', ranks=1):
    more = MORE.format(planned=PLANNED, seconds=seconds, change=change) + stop
    codes = toy(work, ranks=ranks, loop=LOOP, checkpoint=NO_SAVES, pipeline=OUR_VIEWS, more=more)
    assert codes == [75 if stop else 0] * ranks, log_file(tmp_path / work).read_text()[-2000:]
    return tmp_path / work


@pytest.mark.parametrize('pace', [0.5, 1.0, 2.0])
def test_a_run_that_is_faster_or_slower_than_planned_ends_in_time(toy, tmp_path, pace):
    work = train(toy, tmp_path, (20, pace))
    steps = len(curve(work))
    assert 20 + pace * (steps - 20) == pytest.approx(PLANNED, rel=0.03)
    rates = [float(line) for line in (work / 'rates.txt').read_text().splitlines()]
    assert all(before >= after for before, after in pairwise(rates))
    assert rates[-1] < 0.01 * rates[0]  # the schedule ends with the run


def test_a_resumed_run_has_the_new_length_and_the_time_that_is_left(toy, tmp_path):
    change = (10, 2.0)
    whole = train(toy, tmp_path, change, 'whole')
    halves = train(toy, tmp_path, change, 'halves', stop=STOP.format(35))
    train(toy, tmp_path, change, 'halves')
    assert_same_run(halves, whole)


def test_ranks_agree_on_the_length(toy, tmp_path):
    work = train(toy, tmp_path, (5, 4.0), seconds=45, ranks=2)
    assert len(curve(work, 0)) == len(curve(work, 1)) < 20


def test_steps_that_fit_follow_the_newest_quarter_of_the_time():
    marks = [(1, 10.0), (11, 20.0), (21, 30.0), (26, 40.0), (31, 50.0)]  # 1 s, then 2 s a step
    assert fitting_steps(marks, 100.0) == 31 + 25
    assert fitting_steps(marks, 49.0) == 31  # over: no more
    assert fitting_steps(marks[:2], 30.0) == 11 + 10


def test_a_loop_of_epochs_and_no_time_are_refused(toy, tmp_path):
    limit = "default_hooks['limit'] = dict(type='ttl_mm.TimeLimitHook', seconds=9)"
    assert toy(more=limit) == [2]
    assert 'this run counts epochs' in log_file(tmp_path / 'work').read_text()
    with pytest.raises(UserError, match='seconds=0: a run needs a time'):
        time_limit_hook.TimeLimitHook(0)
