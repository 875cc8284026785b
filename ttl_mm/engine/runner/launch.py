"""From a config file to a trained or tested model: what tools/train.py and tools/test.py do."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import RUNNERS

from ttl_mm.compat.quiet_imports import import_quietly
from ttl_mm.config import read_config
from ttl_mm.ending import run_command
from ttl_mm.engine.guards.preemption import SIGNALS, Interrupt, continuing_command
from ttl_mm.engine.runner.config_check import check_arguments
from ttl_mm.engine.runner.networks import choose_networks
from ttl_mm.engine.runner.precision import choose_precision
from ttl_mm.engine.state import exit_codes
from ttl_mm.errors import UserError

TRACKERS = {'wandb': 'WandbVisBackend', 'mlflow': 'MLflowVisBackend'}


def train(
    config: str,
    work_dir: str | None = None,
    resume: str | None = None,
    amp: str | None = None,
    compile: bool = False,
    checkpoint_activations: bool = False,
    launcher: str = 'none',
    tracker: str | None = None,
    plain: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
) -> None:
    """Train as a config file says; the arguments are the options of ``tools/train.py --help``."""
    cfg = _read(config, work_dir, launcher, cfg_options, 'optim_wrapper')
    if resume is not None:
        if resume != 'auto' and not Path(resume).is_file():
            raise UserError(f'--resume {resume}: there is no such file.')
        cfg.resume = resume
    choose_precision(cfg, amp)
    choose_networks(cfg, compile, checkpoint_activations)
    check_arguments(cfg)  # as it runs: --amp chooses another optimizer wrapper
    if tracker is not None:
        _add_tracker(cfg, tracker)
    _choose_console(cfg, plain)
    with _ending_on_signals():
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
    check_arguments(cfg)
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
    if cfg.get('default_scope') == 'mmdet' and find_spec('mmdet'):
        import_quietly('mmdet.datasets')
    cfg.launcher = launcher
    cfg.work_dir = work_dir or cfg.get('work_dir') or str(default_work_dir(config))
    cfg.setdefault('runner_type', 'ttl_mm.Runner')
    fit_workers(cfg, usable_cores())
    return cfg


def default_work_dir(config: str) -> Path:
    """Where a run of ``config`` writes if nobody says otherwise."""
    return Path('work_dirs') / Path(config).stem


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let a signal end the run at once; PreemptionHook takes over when there is a step to save."""

    def end(number: int, frame: object) -> None:
        name = signal.Signals(number).name
        code = exit_codes.PREEMPTED
        raise exit_codes.Preempted(
            f'ended by {name}, and no step was made since the last checkpoint. To continue: '
            f'{continuing_command(sys.argv)} (exit code {code})'
        )

    before: dict[int, Any] = {number: signal.signal(number, end) for number in SIGNALS}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, Interrupt())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def usable_cores() -> int:
    """CPU cores for each process of this run on this machine, at least one."""
    affinity = getattr(os, 'sched_getaffinity', None)  # missing on macOS and Windows
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    names = ('LOCAL_WORLD_SIZE', 'SLURM_NTASKS_PER_NODE')  # of torchrun and of Slurm
    processes = next((os.environ[name] for name in names if name in os.environ), '1')
    return max(1, cores // int(processes))


def fit_workers(cfg: Config, cores: int) -> None:
    """No more workers than cores; images and their views do not depend on the number."""
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        loader = cfg.get(name)
        if loader and loader.get('num_workers', 0) > cores:
            loader.num_workers = cores


def _choose_console(cfg: Config, plain: bool) -> None:
    """Ours, or mmengine's if it was asked for or if mmengine's own runner trains."""
    hooks = dict(cfg.get('default_hooks') or {})
    if plain or cfg.runner_type != 'ttl_mm.Runner':
        hooks.pop('console', None)
    else:
        hooks.setdefault('console', {'type': 'ttl_mm.ConsoleHook'})
    cfg.default_hooks = hooks


def _add_tracker(cfg: Config, tracker: str) -> None:
    try:
        __import__(tracker)
    except ImportError:
        raise UserError(f'--tracker {tracker} needs a package: pip install {tracker}.') from None
    visualizer = cfg.get('visualizer') or {'type': 'Visualizer'}
    backends = [*visualizer.get('vis_backends', []), {'type': TRACKERS[tracker]}]
    cfg.visualizer = {**visualizer, 'vis_backends': backends}


def exit_code(job: Callable[[], object], folder: Path | None = None) -> int:
    """Run ``job``; what ends it is one line on stderr, an exit code, and known to the launcher."""

    def work() -> None:
        job()

    if (code := exit_codes.begin_again()) is not None:
        return code
    code = run_command(work, folder=folder)
    if code:
        exit_codes.tell_launcher(code)
    return code
