"""End a run in time: fit its length to the steps' real cost while it trains."""

import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.hooks import Hook

from ttl_mm.engine.state.control_group import from_first
from ttl_mm.errors import UserError, counted
from ttl_mm.registry import HOOKS

STARTED = 'TTL_STARTED'  # environment: when the processes of this run were started, since 1970
LOOKS = 100  # at the clock, in a run that goes as planned
WINDOW = 0.25  # share of the time so far, the newest, that the cost of a step is taken from
TOLERANCE = 0.02  # of the length: a smaller deviation is left alone


@HOOKS.register_module()
class TimeLimitHook(Hook):
    """Shorten or lengthen a run of ``ttl_mm.IterLoop``, so that it ends in time.

    The config has the length that was planned. After about every hundredth of it the cost of the
    latest steps, with all that hooks did meanwhile, says how many more fit. Schedules that end
    with the run are bent to the new end: mmengine computes a learning rate from the one before, so
    a cosine goes on from where it is and reaches its end at the new length. Length and time spent
    are in the checkpoint, and a resumed run goes on with both.

    Args:
        seconds: For all processes of the run, from their start to the last step. Pauses between
            an interruption and the resumed run do not count.
    """

    priority = 'NORMAL'  # before schedules and the checkpoint, which ask how long the run is

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise UserError(f'seconds={seconds}: a run needs a time above 0.')
        self.seconds = seconds
        self.steps: int | None = None  # of a resumed run, if they differ from the config's
        self._before = 0.0  # seconds of the runs that this one continues
        self._began = float(os.environ.get(STARTED) or time.time())
        self._marks: list[tuple[int, float]] = []  # steps done, and when

    @property
    def spent(self) -> float:
        """Seconds of the run so far."""
        return self._before + time.time() - self._began

    def state_dict(self) -> dict[str, Any]:
        return {'steps': self.steps, 'spent': self.spent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps, self._before = state['steps'], state['spent']

    def before_train(self, runner) -> None:
        if runner.train_loop.counts_epochs:
            raise UserError(
                'TimeLimitHook changes a number of steps, and this run counts epochs: use '
                "train_cfg=dict(type='ttl_mm.IterLoop', max_iters=...)."
            )
        self._every = max(1, runner.max_iters // LOOKS)
        if self.steps is not None:  # the schedules of the checkpoint are bent already
            runner.train_loop.end_after(self.steps)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done = runner.iter + 1
        if not self._marks:  # the first step of a process is slower than all others
            self._marks.append((done, self.spent))
        elif done % self._every == 0 and done < runner.max_iters:
            self._marks.append((done, self.spent))
            steps = from_first(fitting_steps(self._marks, self.seconds))
            if abs(steps - runner.max_iters) >= max(1, TOLERANCE * runner.max_iters):
                self._set_length(runner, steps)

    def _set_length(self, runner, steps: int) -> None:
        before, self.steps = runner.max_iters, steps
        runner.logger.info(
            f'the time suffices for {counted(steps, "step")}, instead of {before:,}.'
        )
        for scheduler in _flat(runner.param_schedulers):
            if not scheduler.by_epoch and scheduler.end == before:
                scheduler.end = steps
                if getattr(scheduler, 'T_max', None) == before:
                    scheduler.T_max = steps
        runner.train_loop.end_after(steps)


def fitting_steps(marks: list[tuple[int, float]], seconds: float) -> int:
    """How many steps fit into ``seconds``, those that are done included.

    Args:
        marks: Pairs of steps done and seconds spent, ascending, two or more.
        seconds: For all steps.

    >>> fitting_steps([(1, 20.0), (10, 29.0)], 100.0)
    81
    """
    done, spent = marks[-1]
    since = spent - WINDOW * (spent - marks[0][1])
    first, began = next((mark for mark in marks if mark[1] >= since), marks[0])
    if first == done:
        first, began = marks[-2]
    per_step = (spent - began) / (done - first)
    return done + max(0, math.floor((seconds - spent) / max(per_step, 1e-9)))


def _flat(schedulers: Any) -> Iterator[Any]:
    """One or several lists of schedules."""
    if isinstance(schedulers, Mapping):
        for some in schedulers.values():
            yield from _flat(some)
    else:
        yield from schedulers or []
