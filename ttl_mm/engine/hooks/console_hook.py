"""The console of a training run: what people see while the whole log goes to a file."""

import logging
import shlex
import time
from pathlib import Path

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook, LoggerHook
from mmengine.logging import MMLogger
from mmpretrain.models.selfsup import BaseSelfSupervisor

from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.console import Screen, Status, WarningLines, duration, status_line
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.evaluation.probe import NAMES
from ttl_mm.registry import HOOKS

PYTHON_WARNINGS = 'py.warnings'  # the logger of logging.captureWarnings


@HOOKS.register_module()
class ConsoleHook(Hook):
    """Show a live display on a terminal, and one line per interval of the logger elsewhere.

    ``ttl_mm.Runner`` keeps mmengine's log out of the console where a config has this hook.
    ``tools/train.py`` adds it, unless ``--plain`` asks for mmengine's console.

    Args:
        next_steps: Whether to say at the end what can be done with the weights.
    """

    priority = 'LOWEST'  # listed after the checkpoint: it shows what all others did

    def __init__(self, next_steps: bool = True) -> None:
        self.next_steps = next_steps
        self.screen: Screen | None = None  # of the main process while it trains

    def before_train(self, runner) -> None:
        if not is_main_process():
            return
        self.screen = Screen()
        self._began, self._first = time.monotonic(), runner.iter
        loggers = [hook for hook in runner.hooks if isinstance(hook, LoggerHook)]
        self._interval = loggers[0].interval if loggers else 50
        for line in _opening(runner):
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
        by_epoch = runner.train_loop.counts_epochs
        spent = time.monotonic() - self._began
        made = done - self._first
        speed, rank = scalars.get('train/images_per_s'), scalars.get('train/rank')
        losses = scalars.get('train/loss')
        info = runner.message_hub.runtime_info
        return Status(
            step=done,
            steps=runner.max_iters,
            epoch=min(runner.epoch + 1, runner.max_epochs) if by_epoch else None,
            epochs=runner.max_epochs if by_epoch else None,
            seconds_left=spent / made * (runner.max_iters - done) if made else None,
            images_per_s=speed.mean(20) if speed else None,
            losses=losses.data[0] if losses else [],
            accuracies={NAMES[k]: scalars[k].current() for k in NAMES if k in scalars},
            rank=rank.current() if rank else None,
            health=info.get('health'),
            bad_images=info.get('bad_images', 0),
            checkpoint=info.get('newest_checkpoint'),
        )


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


def _opening(runner) -> list[str]:
    run = RunSettings.of(runner)
    gpus = torch.cuda.device_count() and runner.world_size
    device = f'{gpus} GPU{"s" * (gpus > 1)}' if gpus else f'the CPU, threads: {_threads(runner)}'
    length = f'{runner.max_iters:,} steps of {run.batch_size} images'
    if runner.train_loop.counts_epochs:
        length = f'{runner.max_epochs:,} epochs, {length}'
    name = Path(runner.cfg.filename).stem if runner.cfg.filename else runner.experiment_name
    lines = [f'{name}: {run.images:,} images, {length}, on {device}.']
    lines.append(f'Everything else is in {runner.log_dir}; the config is in {runner.work_dir}.')
    if runner.iter:
        lines.append(f'Continuing after step {runner.iter:,}.')
    return lines


def _threads(runner) -> int:
    return torch.get_num_threads() * runner.world_size


def _closing(runner, status: Status, seconds: float, next_steps: bool) -> list[str]:
    files = [path for path, _ in sealed_files(Path(runner.work_dir))]
    results = [f'{name} {value:.1f} %' for name, value in status.accuracies.items()]
    whole = status.step >= status.steps
    lines = [
        '  '.join([f'{"Finished" if whole else "Ended"} in {duration(seconds)}.', *results]),
    ]
    folder = shlex.quote(str(runner.work_dir))
    if files:
        newest = shlex.quote(str(Path(runner.work_dir) / files[0].name))
        lines.append(f'Weights: {newest}')
    if not next_steps:
        return lines
    lines.append(f'Next: ttl report {folder}')
    if files and isinstance(unwrap_model(runner.model), BaseSelfSupervisor):
        lines.append(f'      ttl eval {newest} --data LABELED_FOLDER --knn --linear')
        lines.append(f'      ttl export {newest} --to torchvision')
    return lines
