"""From a config file to a trained or tested model: what tools/train.py and tools/test.py do."""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import RUNNERS

from ttl_mm.config import read_config
from ttl_mm.engine.state import exit_codes
from ttl_mm.errors import UserError

TRACKERS = {'wandb': 'WandbVisBackend', 'mlflow': 'MLflowVisBackend'}


def train(
    config: str,
    work_dir: str | None = None,
    resume: str | None = None,
    amp: bool = False,
    launcher: str = 'none',
    tracker: str | None = None,
    cfg_options: Mapping[str, Any] | None = None,
) -> None:
    """Train as a config file says; the arguments are the options of ``tools/train.py --help``."""
    cfg = _read(config, work_dir, launcher, cfg_options, 'optim_wrapper')
    if resume is not None:
        cfg.resume = resume
    _choose_precision(cfg, amp)
    if tracker is not None:
        _add_tracker(cfg, tracker)
    RUNNERS.build(cfg).train()


def run_test(
    config: str,
    weights: str,
    work_dir: str | None = None,
    launcher: str = 'none',
    cfg_options: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """Test with the test set and evaluator of a config; see ``tools/test.py --help``."""
    cfg = _read(config, work_dir, launcher, cfg_options, 'test_evaluator')
    for key in ('train_dataloader', 'train_cfg', 'optim_wrapper', 'param_scheduler'):
        cfg[key] = None
    cfg.load_from, cfg.resume = weights, False
    return RUNNERS.build(cfg).test()


def _read(
    config: str, work_dir: str | None, launcher: str, options: Mapping[str, Any] | None, needed: str
) -> Config:
    cfg = read_config(config, options)
    if not cfg.get(needed):
        raise UserError(f'{config} has no {needed}, which is needed here: take another config.')
    cfg.launcher = launcher
    cfg.work_dir = work_dir or cfg.get('work_dir') or str(Path('work_dirs') / Path(config).stem)
    cfg.setdefault('runner_type', 'ttl_mm.Runner')
    return cfg


def _choose_precision(cfg: Config, amp: bool) -> None:
    """Mixed precision needs a GPU: an error if it was asked for, a warning if a recipe has it."""
    wrapper, gpu = cfg.optim_wrapper, torch.cuda.is_available()
    if amp and not gpu:
        raise UserError('--amp needs a GPU, and torch finds none: leave it out.')
    if amp:
        wrapper.type = 'AmpOptimWrapper'
        wrapper.setdefault('loss_scale', 'dynamic')
    elif not gpu and wrapper.get('type') == 'AmpOptimWrapper':
        print_log('No GPU: training in full precision.', 'current', logging.WARNING)
        wrapper.type = 'OptimWrapper'
        for key in ('loss_scale', 'dtype', 'use_fsdp'):
            wrapper.pop(key, None)


def _add_tracker(cfg: Config, tracker: str) -> None:
    try:
        __import__(tracker)
    except ImportError:
        raise UserError(f'--tracker {tracker} needs a package: pip install {tracker}.') from None
    visualizer = cfg.get('visualizer') or {'type': 'Visualizer'}
    backends = [*visualizer.get('vis_backends', []), {'type': TRACKERS[tracker]}]
    cfg.visualizer = {**visualizer, 'vis_backends': backends}


def exit_code(job: Callable[[], object]) -> int:
    """Run ``job`` and turn the way it ended into an exit code; errors of the user in one line."""
    try:
        job()
        return exit_codes.FINISHED
    except exit_codes.Preempted as end:
        message, code = str(end), exit_codes.PREEMPTED
    except exit_codes.TrainingStopped as error:
        message, code = f'stopped: {error}', exit_codes.STOPPED
    except UserError as error:
        message, code = f'error: {error}', exit_codes.USER_ERROR
    except Exception:
        message, code = traceback.format_exc(), 1
    print(message, file=sys.stderr)
    exit_codes.tell_launcher(code)
    return code
