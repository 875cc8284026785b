"""The last and the best epoch of an evaluation, apart."""

import json
from pathlib import Path

from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.compat.mmengine_private import built_train_loop
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.evaluation.features import data_identity, versions, weights_hash
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class ResultHook(Hook):
    """Write ``results.json``: the metrics of the last epoch and those of the best one.

    The best epoch is chosen by the very images it is judged on: name the last epoch's figure where
    papers are compared, unless they report the best.

    Args:
        protocol: what was done, in words; it stands beside the figures.
        metric: the metric that the best epoch is chosen by.
    """

    priority = 'LOW'

    def __init__(self, protocol: str, metric: str = 'accuracy/top1') -> None:
        self.protocol = protocol
        self.metric = metric
        self.last: dict | None = None
        self.best: dict | None = None

    def state_dict(self) -> dict:
        return {'last': self.last, 'best': self.best}

    def load_state_dict(self, state: dict) -> None:
        self.last, self.best = state['last'], state['best']

    def after_val_epoch(self, runner, metrics: dict[str, float] | None = None) -> None:
        """Keep what was measured."""
        if not metrics or self.metric not in metrics or built_train_loop(runner) is None:
            return  # runner.val() alone trains nothing
        values = {name: round(float(value), 4) for name, value in metrics.items()}
        self.last = {'epoch': runner.epoch, **values}
        if self.best is None or values[self.metric] > self.best[self.metric]:
            self.best = self.last
        if is_main_process():
            self._write(runner)

    def _write(self, runner) -> None:
        if runner.epoch == runner.max_epochs:
            for name, found in (('last', self.last), ('best', self.best)):
                value = f'{self.metric} {found[self.metric]:.2f}'
                runner.logger.info(f'{self.protocol}: {name} epoch {found["epoch"]}, {value}')
        result = {
            'protocol': self.protocol,
            'last': self.last,
            'best': self.best,
            'epochs': runner.max_epochs,
            'backbone_sha256': weights_hash(unwrap_model(runner.model).backbone),
            'train': self._identity(runner.train_dataloader),
            'val': self._identity(runner.val_dataloader),
            'versions': versions(),
        }
        path = Path(runner.work_dir) / 'results.json'
        path.write_text(json.dumps(result, indent=2) + '\n')

    def _identity(self, loader) -> dict:
        """Of the data, found once: it takes a look at every file."""
        known = self.__dict__.setdefault('_identities', {})
        if id(loader) not in known:
            known[id(loader)] = data_identity(loader.dataset)
        return known[id(loader)]
