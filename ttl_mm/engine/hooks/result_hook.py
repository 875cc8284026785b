"""The figures of an evaluation: those of the last and those of the best epoch."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.signs_of_life import report_life
from ttl_mm.errors import counted
from ttl_mm.evaluation.features import data_identity, versions, weights_hash
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class ResultHook(Hook):
    """Write ``results.json``: the metrics of the last epoch and those of the best one.

    The best epoch is chosen by the very images it is measured on: compare papers by the last epoch,
    unless they report the best.

    Args:
        protocol: The kind of evaluation, in a word or two. Epochs, optimizer, learning rate and
            batch of the run are added to it.
        metric: The metric that the best epoch is chosen by.
    """

    priority = 'LOW'

    def __init__(self, protocol: str, metric: str = 'accuracy/top1') -> None:
        self.protocol, self.metric = protocol, metric
        self._ran = ''
        self.last: dict = {}
        self.best: dict = {}
        self._identities: dict[str, dict] = {}

    def state_dict(self) -> dict:
        return {'last': self.last, 'best': self.best}

    def load_state_dict(self, state: dict) -> None:
        self.last, self.best = state['last'] or {}, state['best'] or {}  # None in earlier files

    def before_train(self, runner) -> None:
        self._ran = f', {run_in_words(runner)}'

    def after_val_epoch(self, runner, metrics: dict[str, float] | None = None) -> None:
        """Keep what was measured."""
        if not metrics or self.metric not in metrics or runner.epoch == 0:
            return  # at epoch 0 nothing was trained: runner.val() alone
        values = {name: round(float(value), 4) for name, value in metrics.items()}
        self.last = {'epoch': runner.epoch, **values}
        if not self.best or values[self.metric] > self.best[self.metric]:
            self.best = self.last
        if is_main_process():
            self._write(runner)

    def _write(self, runner) -> None:
        if not self._identities:  # once: it takes a look at every file
            loaders = {'train': runner.train_dataloader, 'val': runner.val_dataloader}
            alive = partial(report_life, runner)
            self._identities = {n: data_identity(x.dataset, alive) for n, x in loaders.items()}
        model: Any = unwrap_model(runner.model)
        protocol = self.protocol + self._ran
        result = {
            'protocol': protocol,
            'last': self.last,
            'best': self.best,
            'epochs': runner.max_epochs,
            'backbone_sha256': weights_hash(model.backbone),
            **self._identities,
            'versions': versions(),
        }
        path = Path(runner.work_dir) / 'results.json'
        try:
            path.write_text(json.dumps(result, indent=2) + '\n')
        except OSError as error:  # the figures are in the checkpoint too
            runner.logger.warning(f'{path} cannot be written ({error.strerror}); the run goes on')
        if runner.epoch == runner.max_epochs:
            for name, found in (('last', self.last), ('best', self.best)):
                value = f'{self.metric} {found[self.metric]:.2f}'
                runner.logger.info(f'{protocol}: {name} epoch {found["epoch"]}, {value}')


def run_in_words(runner) -> str:
    """'100 epochs, SGD 0.15, batch 256', of what really runs."""
    run, optimizer = RunSettings.of(runner), runner.optim_wrapper.optimizer
    rates = sorted({group.get('initial_lr', group['lr']) for group in optimizer.param_groups})
    rate = f'{rates[0]:g}' if len(rates) == 1 else f'{rates[0]:g} to {rates[-1]:g}'
    epochs = counted(runner.max_epochs, 'epoch')
    batch = run.batch_size * run.accumulative_counts
    return f'{epochs}, {type(optimizer).__name__} {rate}, batch {batch}'
