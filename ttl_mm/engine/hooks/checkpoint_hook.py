"""Save the run so that it can be continued, and never lose the save before."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.checkpoint.sealed import remove_leftovers, sealed_files, write_checkpoint
from ttl_mm.engine.state.control_group import from_first
from ttl_mm.engine.state.exit_codes import SMALLER_RATE, TrainingStopped
from ttl_mm.engine.state.train_state import capture
from ttl_mm.errors import UserError, did_you_mean
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
            in training such as ``probe/knn_top1``. 'auto' is the first of validation. Where ranks
            log different values, that of rank 0 counts.
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
        self._is_validated = False  # whether the best metric comes from validation
        self.saved_at = -1  # iteration of the newest save
        self._warned = False  # that the best metric has no value
        self._seen: object = None  # what had been logged of the best metric at the last look

    def state_dict(self) -> dict:
        return {'best': self.best, 'save_best': self.save_best}

    def load_state_dict(self, state: Mapping) -> None:
        if self.save_best in (state['save_best'], 'auto'):
            self.save_best, self.best = state['save_best'], state['best']

    def before_train(self, runner) -> None:
        if self.save_best == 'auto' and runner.val_loop is None:
            raise UserError(
                "save_best='auto' takes the first metric of validation, and this run has none: "
                'name a value that is logged in training, or set val_dataloader and val_evaluator.'
            )
        self.folder = Path(runner.work_dir)
        self.saved_at = runner.iter if runner.iter > 0 else -1
        self._seen = self._logged(runner)  # all of a resumed log has been looked at
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
        if runner.val_loop is None:
            self._warn_of_no_best(runner)

    def after_val_epoch(self, runner, metrics: dict[str, float] | None = None) -> None:
        if self.save_best == 'auto' and metrics:
            self.save_best = next(iter(metrics))
        if metrics and self.save_best in metrics:
            self._is_validated = True
            self._save_if_best(runner, float(metrics[self.save_best]), runner.epoch, runner.iter)
        self._warn_of_no_best(runner, metrics or {})

    def _warn_of_no_best(self, runner, metrics: Mapping[str, float] | None = None) -> None:
        """Say once, as early as it can be known, that nothing so far bears the name of the best."""
        known = {name.removeprefix('train/') for name in runner.message_hub.log_scalars}
        known |= {*(metrics or ())}
        if self.save_best is None or self._warned or self.save_best in known:
            return
        self._warned = True
        near = did_you_mean(self.save_best, known)
        runner.logger.warning(
            f'save_best={self.save_best!r} has no value so far, so no best checkpoint is kept; '
            f'there are {", ".join(sorted(known))}.{near}'
        )

    def _watch_log(self, runner, epoch: int, iteration: int) -> None:
        """Look for a new value of the best metric among what hooks have logged."""
        if self.save_best in (None, 'auto') or self._is_validated:
            return
        values = self._logged(runner)
        is_new = values is not self._seen  # mmengine makes a new array for every new value
        self._seen = values
        # ranks may log different values, or none: rank 0 decides for all
        self._save_if_best(runner, float(values[-1]) if is_new else math.nan, epoch, iteration)

    def _logged(self, runner) -> Any:
        """What has been logged of the best metric: an array, or None."""
        logged = runner.message_hub.log_scalars
        buffer = logged.get(f'train/{self.save_best}', logged.get(self.save_best))
        return None if buffer is None else buffer.data[0]

    def _save_if_best(self, runner, value: float, epoch: int, iteration: int) -> None:
        """Save if the value on rank 0 is the best so far; collective."""
        value = from_first(value)
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
        state, problem = capture(runner, epoch, iteration), None
        if state is not None:
            try:
                check_finite(state)
                generation = runner.train_loop.generation
                write_checkpoint(self.folder / name, state, iteration, epoch, generation)
                runner.logger.info(f'saved {name} at iteration {iteration}')
                runner.message_hub.update_info('newest_checkpoint', name)
                self._delete_old()
            except UserError as error:
                problem = error
        if (problem := from_first(problem)) is not None:
            raise problem  # on every rank: all of them end, and with the same code
        self.saved_at = iteration

    def _delete_old(self) -> None:
        rolling = [p for p, _ in sealed_files(self.folder) if not p.name.startswith('best_')]
        for path in rolling[self.max_keep_ckpts :] if self.max_keep_ckpts > 0 else ():
            path.unlink(missing_ok=True)


def check_finite(state: Mapping) -> None:
    """Refuse to save weights, optimizer state or an open gradient with NaN or infinity."""
    parts = {part: state[part] for part in ('state_dict', 'optimizer')}
    if not state['optimizer'].get('loss_scaler'):  # which makes no step with infinity
        parts['gradients'] = state['ttl_mm']['gradients']
    for part, content in parts.items():
        for name, tensor in _tensors_in(content, part):
            if not tensor.isfinite().all():
                raise TrainingStopped(
                    f'{name} is not finite at iteration {state["meta"]["iter"]}, so nothing was '
                    f'saved: resume from the checkpoint before with {SMALLER_RATE}.'
                )


def _tensors_in(value, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of nested containers, with the way to each."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (Mapping, list, tuple)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _tensors_in(part, f'{name}.{key}')
