"""Save and end when somebody asks for it: the scheduler, Ctrl-C, or a terminal that closes."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from mmengine.dist import get_world_size
from mmengine.hooks import Hook

from ttl_mm.compat.mmengine_private import accumulative_counts
from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.state.control_group import AnyRank, gather
from ttl_mm.engine.state.exit_codes import (
    INTERRUPTED,
    PREEMPTED,
    Interrupted,
    Preempted,
    WorkerLost,
)
from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
CONTINUES = 'TTL_CONTINUES'  # environment: the line that continues this run, if a launcher knows it
WAIT = 2.0  # seconds that a single process still waits for a batch when it is asked to end
SAME_PRESS = 2.0  # seconds within which a second SIGINT is the first one, passed on by a launcher
# Several ranks finish an accumulation that has at most so many iterations left: the mean of their
# open gradients, which a checkpoint holds, is not bit by bit what the step would have made of them.
MOST_ITERATIONS = 8


class Interrupt:
    """Serves SIGINT as Python does, and remembers it for :class:`PreemptionHook`.

    Python drops an exception that is raised while it deletes an object, and Ctrl-C with it.
    """

    pressed = False

    def __call__(self, number: int, frame) -> NoReturn:
        self.pressed = True
        raise KeyboardInterrupt


@HOOKS.register_module()
class PreemptionHook(Hook):
    """On SIGTERM, SIGUSR1, SIGHUP or Ctrl-C to any rank, all save after the same step and end.

    The exit code is 75, and 130 after Ctrl-C (see :mod:`ttl_mm.engine.state.exit_codes`). A second
    Ctrl-C ends at once. A single process that waits for data does so for two more seconds. It also
    saves when a process that loads data has died.
    """

    priority = 'LOWEST'  # registered after the checkpoint hook, so it knows whether that saved

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._ends = False  # some rank was asked to end
        self._before: dict = {}

    @property
    def asked(self) -> bool:
        """Whether this rank was asked to end."""
        return self._received is not None

    def before_train(self, runner) -> None:
        if getattr(signal.getsignal(signal.SIGINT), 'pressed', False):
            raise KeyboardInterrupt
        self._any_rank, self._started = AnyRank(), runner.iter
        self._loop, self._process, self._pressed = runner.train_loop, os.getpid(), 0.0
        numbers = (*SIGNALS, signal.SIGINT)
        self._before = {number: signal.signal(number, self._receive) for number in numbers}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._give_up)

    def _receive(self, number: int, frame) -> None:
        if os.getpid() != self._process:
            return  # a worker that is just being started
        first, self._received = self._received is None, signal.Signals(number)
        if number == signal.SIGINT and not self._is_same_press() and not first:
            raise KeyboardInterrupt
        if number == signal.SIGINT and first:
            _tell('saving after this step; Ctrl-C once more ends at once')
        if self._loop.waiting and get_world_size() == 1:
            signal.setitimer(signal.ITIMER_REAL, WAIT)

    def _give_up(self, number: int, frame) -> None:
        """Stop waiting for a batch that does not come.

        An exception in the middle of a batch that does come could leave a worker in the middle of
        an answer, so this is not done before some time has passed.
        """
        if os.getpid() == self._process and self._loop.waiting:
            raise self._end('while it waited for data')  # caught by the loop: when_data_fail

    def _is_same_press(self) -> bool:
        before, self._pressed = self._pressed, time.monotonic()
        return self._pressed - before < SAME_PRESS

    def when_data_fail(self, runner, error: Exception) -> None:
        """Save what was trained, if this process can do so without the others."""
        done, alone = runner.iter, get_world_size() == 1
        progress = done > self._started and alone and self._save(runner, done)
        if self._received is not None and alone:
            raise self._end(f'after iteration {done}') from None
        raise_lost_worker(error, done if progress else None)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done = runner.iter + 1
        self._ends |= self._any_rank.exchange(self.asked)
        if not self._ends or 0 < self._left(runner, done) <= MOST_ITERATIONS:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        saved = self._save(runner, done)
        gather(None)  # nobody ends, and so alarms the launcher, before the file is complete
        where = f'saved in {runner.work_dir}' if saved else 'lost: no checkpoint hook saves it'
        raise self._end(f'after iteration {done}, which is {where}')

    def _save(self, runner, done: int) -> bool:
        """Save what was trained, if the run has a hook for it; whether it has."""
        hooks = [hook for hook in runner.hooks if isinstance(hook, CheckpointHook)]
        for checkpoint in hooks:
            if checkpoint.saved_at != done:
                checkpoint.save(runner, f'iter_{done}.pth', runner.epoch, done)
        return bool(hooks)

    def _end(self, where: str) -> Preempted:
        interrupted = self._received == signal.SIGINT
        name = self._received.name if self._received else 'a signal to another rank'
        code = INTERRUPTED if interrupted else PREEMPTED
        return (Interrupted if interrupted else Preempted)(
            f'ended by {"Ctrl-C" if interrupted else name} {where}. To continue: '
            f'{continuing_command(sys.argv)} (exit code {code})'
        )

    @staticmethod
    def _left(runner, done: int) -> int:
        """Iterations until the optimizer steps; 0 for a single process, which saves at any time."""
        if get_world_size() == 1 or done == runner.max_iters:
            return 0
        return -done % accumulative_counts(runner.optim_wrapper)

    def after_train(self, runner) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _tell(text: str) -> None:
    """A line on stderr, above a live display; a signal can come in the middle of anything."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (RuntimeError, OSError, ValueError):  # in the middle of another line, or closed
        with suppress(OSError):
            os.write(2, f'\n{text}\n'.encode())


def of_ttl(program: str) -> list[str]:
    """How a user calls this program if it is ``ttl`` or ``python -m ttl_mm``; else nothing."""
    if os.path.basename(program) == 'ttl':
        return ['ttl']
    return ['python', '-m', 'ttl_mm'] if program.endswith('ttl_mm/__main__.py') else []


def continuing_command(arguments: Sequence[str]) -> str:
    """The line that continues a run which was started by these arguments."""
    if CONTINUES in os.environ:
        return os.environ[CONTINUES]
    program, *rest = arguments
    if start := of_ttl(program):
        return shlex.join([*start, *rest])
    if os.path.basename(program) == 'processes.py':
        return shlex.join(['python', '-m', 'ttl_mm.engine.runner.processes', *rest])
    if os.path.basename(program) != 'train.py' or '--launcher' in rest:
        return 'the same command with --resume'
    resume = [] if '--resume' in rest else ['--resume']
    return shlex.join(['python', program, *rest, *resume])


def raise_lost_worker(error: Exception, saved: int | None) -> NoReturn:
    """End the run whose data no longer arrive; code 75 only where another start gets further.

    Raises:
        WorkerLost: The state after iteration ``saved`` is saved.
        UserError: Nothing was trained since the start, so another one would end like this one.
    """
    reason = (
        'a process that loads data has died (killed for lack of memory? lower '
        'train_dataloader.num_workers or the batch)'
    )
    if saved is not None:
        raise WorkerLost(
            f'{reason}; iteration {saved} is saved. To continue: {continuing_command(sys.argv)} '
            f'(exit code {PREEMPTED})'
        ) from error
    if get_world_size() > 1:
        raise WorkerLost(
            f'{reason}; the newest checkpoint is the place to go on from: '
            f'{continuing_command(sys.argv)} (exit code {PREEMPTED})'
        ) from error
    raise UserError(f'{reason} before the first step was done.') from error
