"""Save and end when the scheduler asks for the machine back."""

import signal

from mmengine.hooks import Hook

from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.state.control_group import AnyRank, gather
from ttl_mm.engine.state.exit_codes import PREEMPTED, Preempted
from ttl_mm.registry import HOOKS

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@HOOKS.register_module()
class PreemptionHook(Hook):
    """On SIGTERM or SIGUSR1 to any rank, all ranks save after the same step and end.

    The exit code is 75 (see :mod:`ttl_mm.engine.state.exit_codes`).
    """

    priority = 'LOWEST'  # registered after the checkpoint hook, so it knows whether that saved

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._before: dict = {}

    def before_train(self, runner) -> None:
        self._any_rank = AnyRank()
        self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}

    def _receive(self, number: int, frame) -> None:
        self._received = signal.Signals(number)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if not self._any_rank.exchange(self._received is not None):
            return
        done = runner.iter + 1
        checkpoint = next(hook for hook in runner.hooks if isinstance(hook, CheckpointHook))
        if checkpoint.saved_at != done:
            checkpoint.save(runner, f'iter_{done}.pth', runner.epoch, done)
        gather(None)  # nobody ends, and so alarms the launcher, before the file is complete
        name = self._received.name if self._received else 'a signal to another rank'
        raise Preempted(
            f'ended by {name} after iteration {done}, which is saved in {runner.work_dir}: the '
            f'same command with --resume continues (exit code {PREEMPTED})'
        )

    def after_train(self, runner) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
