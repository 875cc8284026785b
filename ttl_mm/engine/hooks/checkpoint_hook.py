"""Save the run so that it can be continued, and never lose the save before."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.checkpoint.sealed import remove_leftovers, sealed_files, write_checkpoint
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.train_state import capture
from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS

_SMALLER_IS_BETTER = ('loss', 'error', 'ece')


@HOOKS.register_module()
class CheckpointHook(Hook):
    """Save every ``interval`` epochs or iterations, at the end, and when a metric is best.

    Files are ``epoch_N.pth`` or ``iter_N.pth`` in the work_dir, and ``best_METRIC.pth``. An old
    file is deleted after the new one is complete on disk. A state with values that are not finite
    is never saved.

    Args:
        interval: Epochs or iterations between saves; -1 for none but the last.
        by_epoch: Whether ``interval`` counts epochs.
        max_keep_ckpts: How many to keep, the best one not counted; -1 keeps all.
        save_last: Whether to save at the end of training in any case.
        save_best: A metric to keep the best checkpoint of: from validation, or any value logged
            in training such as ``probe/knn_top1``. 'auto' is the first of validation.
        rule: 'greater' or 'less'; by default loss-like metrics are to be small.
    """

    priority = 'LOWEST'  # what is saved includes what all other hooks did

    def __init__(
        self,
        interval: int = -1,
        by_epoch: bool = True,
        max_keep_ckpts: int = -1,
        save_last: bool = True,
        save_best: str | None = None,
        rule: str | None = None,
    ) -> None:
        if max_keep_ckpts == 0 or max_keep_ckpts < -1:
            raise UserError(f'max_keep_ckpts={max_keep_ckpts}: keep at least 1, or all with -1.')
        if rule not in (None, 'greater', 'less'):
            raise UserError(f"rule={rule!r}: it must be 'greater' or 'less'.")
        self.interval, self.by_epoch, self.save_last = interval, by_epoch, save_last
        self.max_keep_ckpts = max_keep_ckpts
        self.save_best, self.rule = save_best, rule
        self.best: float | None = None
        self.saved_at = -1  # iteration of the newest save
        self._logged = 0  # how many values of the best metric have been looked at

    def state_dict(self) -> dict:
        return {'best': self.best, 'save_best': self.save_best}

    def load_state_dict(self, state: Mapping) -> None:
        if self.save_best in (state['save_best'], 'auto'):
            self.save_best, self.best = state['save_best'], state['best']

    def before_train(self, runner) -> None:
        self.folder = Path(runner.work_dir)
        self.saved_at = runner.iter if runner.iter > 0 else -1
        # a resumed log is shorter than it was, and all of it has been looked at
        self._logged = len(self._values(runner))
        if is_main_process():
            remove_leftovers(self.folder)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done = runner.iter + 1
        self._watch_log(runner, runner.epoch, done)
        last = self.save_last and done == runner.max_iters
        if not self.by_epoch and (last or self.every_n_train_iters(runner, self.interval)):
            self.save(runner, f'iter_{done}.pth', runner.epoch, done)

    def after_train_epoch(self, runner) -> None:
        done = runner.epoch + 1
        self._watch_log(runner, done, runner.iter)
        last = self.save_last and done == runner.max_epochs
        if self.by_epoch and (last or self.every_n_epochs(runner, self.interval)):
            self.save(runner, f'epoch_{done}.pth', done, runner.iter)

    def after_val_epoch(self, runner, metrics: dict[str, float] | None = None) -> None:
        if self.save_best == 'auto' and metrics:
            self.save_best = next(iter(metrics))
        if metrics and self.save_best in metrics:
            self._save_if_best(runner, float(metrics[self.save_best]), runner.epoch, runner.iter)

    def _watch_log(self, runner, epoch: int, iteration: int) -> None:
        """Look for a new value of the best metric among what hooks have logged."""
        values = self._values(runner)
        if len(values) > self._logged:
            self._logged = len(values)
            self._save_if_best(runner, float(values[-1]), epoch, iteration)

    def _values(self, runner) -> Sequence[float]:
        """What has been logged of the best metric."""
        logged = runner.message_hub.log_scalars
        buffer = logged.get(f'train/{self.save_best}', logged.get(self.save_best))
        return () if buffer is None else buffer.data[0]

    def _save_if_best(self, runner, value: float, epoch: int, iteration: int) -> None:
        metric = self.save_best or ''
        is_error = any(word in metric.lower() for word in _SMALLER_IS_BETTER)
        sign = -1 if (self.rule or ('less' if is_error else 'greater')) == 'less' else 1
        if not sign * value > (-math.inf if self.best is None else sign * self.best):
            return  # NaN is never the best
        self.best = value
        name = f'best_{metric.replace("/", "_")}.pth'
        self.save(runner, name, epoch, iteration)
        runner.logger.info(f'{metric} = {value:.4f} is the best so far: {name}')

    def save(self, runner, name: str, epoch: int, iteration: int) -> None:
        """Write one checkpoint, then delete what is no longer to be kept; collective."""
        state = capture(runner, epoch, iteration)
        if state is not None:
            check_finite(state)
            write_checkpoint(self.folder / name, state, iteration, epoch)
            runner.logger.info(f'saved {name} at iteration {iteration}')
            self._delete_old()
        self.saved_at = iteration

    def _delete_old(self) -> None:
        rolling = [p for p, _ in sealed_files(self.folder) if not p.name.startswith('best_')]
        for path in rolling[self.max_keep_ckpts :] if self.max_keep_ckpts > 0 else ():
            path.unlink(missing_ok=True)


def check_finite(state: Mapping) -> None:
    """Refuse to save weights or optimizer state with NaN or infinity."""
    for part in ('state_dict', 'optimizer'):
        for name, tensor in _tensors_in(state[part], part):
            if not tensor.isfinite().all():
                raise TrainingStopped(
                    f'{name} is not finite at iteration {state["meta"]["iter"]}, so nothing was '
                    'saved: resume from the checkpoint before with a smaller learning rate.'
                )


def _tensors_in(value, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of nested containers, with the way to each."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (Mapping, list, tuple)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _tensors_in(part, f'{name}.{key}')
