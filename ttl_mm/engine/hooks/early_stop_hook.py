"""End a run that does not get better any more."""

import math

from mmengine.hooks import Hook

from ttl_mm.engine.hooks.judge_hook import JudgeHook
from ttl_mm.engine.hooks.probe_hook import ProbeHook
from ttl_mm.engine.state.control_group import AnyRank
from ttl_mm.engine.state.measured import curve_of
from ttl_mm.errors import UserError
from ttl_mm.gauges.verdict import MEASURE
from ttl_mm.registry import HOOKS

MEASURED_BY: dict[str, type[Hook]] = {'judge': JudgeHook, 'probe': ProbeHook}


@HOOKS.register_module()
class EarlyStopHook(Hook):
    """End the run when a measured quantity has not been best for ``patience`` measurements.

    It ends as any run does, with its last checkpoint and an exit code of 0: at once in a run of
    iterations, after the current epoch in a run of epochs. A resumed run that had ended so stays
    ended. The learning rate of a schedule has not reached its end then; docs/judge.md shows what
    that costs.

    Args:
        patience: Measurements in a row without a new highest value.
        monitor: What is measured: ``judge/view_invariance``, which needs no labels, or
            ``probe/knn_top1``.
    """

    priority = 90  # after what measures (72, 75), before the checkpoint (LOWEST, 100)

    def __init__(self, patience: int, monitor: str = MEASURE) -> None:
        if patience < 1:
            raise UserError(f'patience={patience}: wait for at least 1 measurement.')
        self.patience, self.monitor = patience, monitor
        self.ended: int | None = None  # where the run was ended: steps, or epochs
        self._seen = 0  # measurements that were looked at

    def state_dict(self) -> dict:
        return {'ended': self.ended}

    def load_state_dict(self, state: dict) -> None:
        self.ended = state['ended']

    def before_train(self, runner) -> None:
        kind = MEASURED_BY.get(self.monitor.partition('/')[0])
        if kind is None or not any(isinstance(hook, kind) for hook in runner.hooks):
            raise UserError(
                f'monitor={self.monitor!r} is measured by no hook of this run: add a '
                'ttl_mm.JudgeHook for judge/..., or a ttl_mm.ProbeHook for probe/...'
            )
        self._seen = len(curve_of(runner, self.monitor))
        self._any_rank = AnyRank()
        if self.ended is not None:
            runner.train_loop.end_after(self.ended)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        curve = curve_of(runner, self.monitor)
        is_new, self._seen = len(curve) != self._seen, len(curve)
        waited = since_best([value for _, value in curve]) if is_new else 0
        # with several ranks, all know it in the iteration after
        if self._any_rank.exchange(waited >= self.patience) and self.ended is None:
            self._end(runner)

    def _end(self, runner) -> None:
        by_epoch = runner.train_loop.counts_epochs
        self.ended = runner.epoch + 1 if by_epoch else runner.iter + 1
        runner.train_loop.end_after(self.ended)
        runner.logger.warning(
            f'{self.monitor} has not been best for {self.patience} measurements: the run ends '
            f'{"after this epoch" if by_epoch else "here"}, at step {runner.iter + 1}.'
        )


def since_best(values: list[float]) -> int:
    """How many values came after the highest one; those that are not finite are never best.

    >>> since_best([1.0, 3.0, 2.0, 2.5])
    2
    """
    ordered = [value if math.isfinite(value) else -math.inf for value in values]
    return len(ordered) - 1 - ordered.index(max(ordered)) if ordered else 0
