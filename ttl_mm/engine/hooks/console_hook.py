"""The console of a training run: what people see while the whole log goes to a file."""

import logging
import os
import shlex
import time
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook, LoggerHook
from mmengine.logging import MMLogger
from mmpretrain.models.selfsup import BaseSelfSupervisor
from torch import nn

from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.console import Screen, Status, WarningLines, duration, status_line
from ttl_mm.engine.state.measured import curve_of
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import counted
from ttl_mm.evaluation.probe import NAMES
from ttl_mm.gauges.forecast import look_ahead, references
from ttl_mm.gauges.verdict import ERROR, MEASURE, verdict
from ttl_mm.models.adapted_backbone import AdaptedBackbone
from ttl_mm.registry import HOOKS

PYTHON_WARNINGS = 'py.warnings'  # the logger of logging.captureWarnings


@HOOKS.register_module()
class ConsoleHook(Hook):
    """Show a live display on a terminal, and one line per interval of the logger elsewhere.

    ``ttl_mm.Runner`` keeps mmengine's log out of the console where a config has this hook.
    ``tools/train.py`` adds it, unless ``--plain`` asks for mmengine's console.

    Args:
        title: What to call the run; the name of its config by default.
        next_steps: Whether to say at the end what can be done with the weights.
    """

    priority = 'LOWEST'  # listed after the checkpoint: it shows what all others did

    def __init__(self, title: str | None = None, next_steps: bool = True) -> None:
        self.title, self.next_steps = title, next_steps
        self.screen: Screen | None = None  # of the main process while it trains
        self._forecasts: dict[str, tuple[Any, str | None]] = {}  # what they are of, and themselves

    def before_train(self, runner) -> None:
        if not is_main_process():
            return
        self.screen = Screen()
        self._began, self._first = time.monotonic(), runner.iter
        if runner.iter and (found := sealed_files(Path(runner.work_dir))):
            runner.message_hub.update_info('newest_checkpoint', found[0][0].name)
        loggers = [hook for hook in runner.hooks if isinstance(hook, LoggerHook)]
        self._interval = loggers[0].interval if loggers else 50
        for line in _opening(runner, self.title):
            self.screen.print(line)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if self.screen is None:
            return
        if self.screen.is_due:
            self.screen.refresh(lambda: self._status(runner, runner.iter + 1))
        elif not self.screen.is_live:
            done = runner.iter + 1
            if done % self._interval == 0 or done == runner.max_iters:
                self.screen.print(status_line(self._status(runner, done)))

    def after_train(self, runner) -> None:
        if self.screen is None:
            return
        status = self._status(runner, runner.iter)
        if self.screen.is_live:
            self.screen.refresh(lambda: status)
        screen = self.screen
        self.close()
        for line in _closing(runner, status, time.monotonic() - self._began, self.next_steps):
            screen.print(line)

    def close(self) -> None:
        """Give the terminal back; the runner calls it however the training ends."""
        if self.screen is not None:
            self.screen.close()
            self.screen = None

    def _status(self, runner, done: int) -> Status:
        scalars = runner.message_hub.log_scalars
        if runner.train_loop.counts_epochs:
            epoch, epochs = min(runner.epoch + 1, runner.max_epochs), runner.max_epochs
        else:  # so many passes over the images, the last one seldom whole
            length = len(runner.train_dataloader)
            epoch, epochs = (-(-steps // length) for steps in (done, runner.max_iters))
        spent = time.monotonic() - self._began
        made = done - self._first
        speed, rank = scalars.get('train/images_per_s'), scalars.get('train/rank')
        losses = scalars.get('train/loss')
        info = runner.message_hub.runtime_info
        return Status(
            step=done,
            steps=runner.max_iters,
            epoch=epoch,
            epochs=epochs,
            seconds_left=spent / made * (runner.max_iters - done) if made else None,
            images_per_s=speed.mean(20) if speed else None,
            losses=losses.data[0] if losses else [],
            accuracies={NAMES[k]: scalars[k].current() for k in NAMES if k in scalars},
            rank=rank.current() if rank else None,
            health=info.get('health'),
            verdict=verdict(*kept_neighbors(runner), info.get('health')),
            forecast=self._forecast(runner),
            bad_images=info.get('bad_images', 0),
            checkpoint=info.get('newest_checkpoint'),
        )

    def _forecast(self, runner) -> str | None:
        """Where the run will end, by accuracy or else without labels."""
        for key in references():
            curve = curve_of(runner, key)
            of = (len(curve), runner.max_iters)
            if self._forecasts.get(key, (None, None))[0] != of:  # else fitted before
                steps, values = zip(*curve) if curve else ((), ())
                found = look_ahead(key, steps, values, runner.max_iters)
                self._forecasts[key] = (of, None if found is None else str(found))
            if text := self._forecasts[key][1]:
                return text
        return None


def kept_neighbors(runner) -> tuple[list[float], list[float]]:
    """What JudgeHook has measured so far, and its errors."""
    kept, errors = ([value for _, value in curve_of(runner, key)] for key in (MEASURE, ERROR))
    return kept, errors


def quiet(logger: MMLogger) -> None:
    """Keep all but warnings out of the console; Python's own warnings go to the file alone.

    Other processes than the main one print errors only, with their rank, as mmengine does.
    """
    if not is_main_process():
        return
    files = [h for h in logger.handlers if isinstance(h, logging.FileHandler)]
    for handler in list(logger.handlers):
        if handler not in files:
            logger.removeHandler(handler)
    logger.addHandler(WarningLines())
    logging.captureWarnings(True)
    of_python = logging.getLogger(PYTHON_WARNINGS)
    of_python.propagate, of_python.handlers[:] = False, files


def unquiet() -> None:
    """Let Python's warnings reach stderr again."""
    logging.captureWarnings(False)
    of_python = logging.getLogger(PYTHON_WARNINGS)
    of_python.propagate, of_python.handlers[:] = True, []


def _opening(runner, title: str | None) -> list[str]:
    run = RunSettings.of(runner)
    gpus = torch.cuda.device_count() and runner.world_size
    device = counted(gpus, 'GPU') if gpus else f'the CPU, threads: {_threads(runner)}'
    length = f'{counted(runner.max_iters, "step")} of {run.batch_size} images'
    if runner.train_loop.counts_epochs:
        length = f'{counted(runner.max_epochs, "epoch")}, {length}'
    name = Path(runner.cfg.filename).stem if runner.cfg.filename else runner.experiment_name
    name = title or name
    lines = [f'{name}: {run.images:,} images, {length}, on {device}.']
    log, folder = (_from_here(path) for path in (runner.log_dir, runner.work_dir))
    lines.append(f'Everything else is in {log}; the config is in {folder}.')
    if runner.iter:
        lines.append(f'Continuing after step {runner.iter:,}.')
    return lines


def _from_here(path: str) -> str:
    """The shorter way to a folder: from the working directory, if it lies below it."""
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here


def _threads(runner) -> int:
    return torch.get_num_threads() * runner.world_size


def _closing(runner, status: Status, seconds: float, next_steps: bool) -> list[str]:
    files = [path for path, _ in sealed_files(Path(runner.work_dir))]
    results = [f'{name} {value:.1f} %' for name, value in status.accuracies.items()]
    whole = status.step >= status.steps
    lines = [
        '  '.join([f'{"Finished" if whole else "Ended"} in {duration(seconds)}.', *results]),
    ]
    if status.verdict is not None:
        lines.append('{}: {}.'.format(*status.verdict))
    folder = shlex.quote(str(runner.work_dir))
    if files:
        newest = shlex.quote(str(Path(runner.work_dir) / files[0].name))
        lines.append(f'Weights: {newest}')
    if not next_steps:
        return lines
    lines.append(f'Next: ttl report {folder}')
    model = unwrap_model(runner.model)
    if files and isinstance(model, BaseSelfSupervisor):
        lines.append(f'      ttl eval {newest} --data LABELED_FOLDER --knn --linear')
        lines.append(f'      ttl export {newest} --to {_layout(model.backbone)}')
    return lines


def _layout(backbone: nn.Module) -> str:
    """A layout that the network can be exported to: that of its own library."""
    if not isinstance(backbone, AdaptedBackbone):
        return 'torchvision'
    library = backbone.name.partition('/')[0]
    return library if library in ('timm', 'torchvision', 'mmpretrain') else 'plain'
