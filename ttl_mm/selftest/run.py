"""The whole self-test: from a config to a report."""

import os
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.config import Config
from mmengine.device import get_device

from ttl_mm.config import read_config
from ttl_mm.engine.optim.amp import DTYPES, best_dtype, uses_amp
from ttl_mm.engine.runner.networks import choose_networks
from ttl_mm.engine.runner.precision import choose_precision
from ttl_mm.errors import UserError
from ttl_mm.planning.recipe import default_recipe
from ttl_mm.selftest.checks import FAIL, Check
from ttl_mm.selftest.part_checks import PART_CHECKS, Found
from ttl_mm.selftest.ranks import FIRST, SECOND, Job, findings, log_tails, run_ranks
from ttl_mm.selftest.small_recipe import (
    EPOCH,
    INFINITY_AT,
    highest_rank,
    make_images,
    small_recipe,
)
from ttl_mm.version import __version__

INTERRUPTED_AT = 5  # an odd number: inside an accumulation of two
INFINITY_STEPS = 5
FIRST_SCALE = 256.0  # low enough that no step overflows by itself
CPU_RANKS, CPU_BATCH, CPU_WORKERS = 2, 4, 1


@dataclass
class Report:
    """The findings, and what is needed to make sense of them elsewhere."""

    machine: dict[str, Any]
    checks: list[Check]
    measured: Found
    logs: dict[str, list[str]]
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether at least one check failed."""
        return any(check.status == FAIL for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [check._asdict() for check in self.checks]
        return {**vars(self), 'checks': rows}


def run_selftest(
    config: str | Path | None = None,
    gpus: int | None = None,
    folder: str | Path = '.',
    amp: str | None = None,
    compile: bool = False,
    checkpoint_activations: bool = False,
    start_method: str = 'spawn',
    cfg_options: dict[str, Any] | None = None,
) -> Report:
    """Test this machine with a recipe.

    Args:
        config: A recipe; the main one by default.
        gpus: Number of GPUs, or of processes where there is none; all GPUs, or two, by default.
        folder: Work dirs are made in a new folder inside, and deleted at the end.
        amp: As in ``tools/train.py``; and so the next two.
        compile: As ``--compile``.
        checkpoint_activations: As ``--checkpoint-activations``.
        start_method: How Python starts processes; 'fork' shares what is imported already.
        cfg_options: Changes of the small recipe, as ``--cfg-options``.
    """
    began, device = time.monotonic(), get_device()
    config = Path(config or default_recipe())
    cfg = read_config(config)
    choose_precision(cfg, amp)
    choose_networks(cfg, compile, checkpoint_activations)
    ranks = choose_ranks(gpus, torch.cuda.device_count())
    with tempfile.TemporaryDirectory(prefix='ttl_doctor_', dir=folder) as name:
        # a CPU computes float16 very slowly; a loss scale works in the same way for both
        scaled, limit = ('bf16', 900) if device == 'cpu' else ('fp16', 300)
        job = Job(Path(name), ranks, precision_of(cfg), scaled, limit)
        _write_configs(cfg, job, device, cfg_options or {})
        run_ranks(job, FIRST, start_method)
        run_ranks(job, SECOND, start_method)
        found = findings(job.folder, ranks)
        results = [check for part in PART_CHECKS for check in part(job, found, device)]
        logs = log_tails(job.folder)
    seconds = time.monotonic() - began
    return Report(describe_machine(config, ranks), results, found, logs, seconds)


def choose_ranks(asked: int | None, gpus: int) -> int:
    """How many processes test a machine with so many GPUs."""
    if asked and gpus and asked > gpus:
        raise UserError(
            f'--gpus {asked}: torch sees {gpus} here. Ask for no more, or look at '
            'CUDA_VISIBLE_DEVICES.'
        )
    return asked or gpus or CPU_RANKS


def precision_of(cfg: Config) -> str:
    """The value of ``--amp`` that a config stands for."""
    if not uses_amp(cfg.optim_wrapper):
        return 'off'
    dtype = cfg.optim_wrapper.get('dtype') or DTYPES['fp16']  # mmengine's default
    return next(name for name, kind in DTYPES.items() if kind == dtype)


def _write_configs(cfg: Config, job: Job, device: str, options: dict[str, Any]) -> None:
    """The four runs, each a file that anybody could train by."""
    batch, workers = cfg.train_dataloader.batch_size, cfg.train_dataloader.get('num_workers', 0)
    if device == 'cpu':
        few = max(CPU_BATCH, highest_rank(cfg.model) + 1)
        batch, workers = min(batch, few), min(workers, CPU_WORKERS)
    images = make_images(job.folder / 'images', job.ranks * batch * EPOCH)
    small = small_recipe(cfg, images, batch, job.ranks, workers)
    small.merge_from_dict(options)
    own = list(small.get('custom_hooks') or [])

    def write(name: str, *hooks: dict[str, Any], every_step: bool = False) -> None:
        measure = dict(
            type='ttl_mm.MeasureHook', folder=str(job.folder / name), every_step=every_step
        )
        small.custom_hooks = [*own, *hooks, measure]
        small.dump(job.folder / f'{name}.py')

    write('whole')
    write('resume')
    votes = int(job.ranks > 1)  # several ranks count the vote to end one iteration later
    write('interrupt', dict(type='ttl_mm.InterruptHook', at=INTERRUPTED_AT - votes))
    small.train_cfg.max_iters = INFINITY_STEPS
    scale = dict(init_scale=FIRST_SCALE)
    small.optim_wrapper.update(loss_scale=scale, accumulative_counts=1)
    write('infinity', dict(type='ttl_mm.InfinityHook', at=INFINITY_AT), every_step=True)


def describe_machine(config: Path, ranks: int) -> dict[str, Any]:
    """Versions and devices, for a bug report."""
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        'config': config.name,
        'ranks': ranks,
        'device': get_device(),
        'gpus': gpus,
        'cores': os.cpu_count(),
        'python': platform.python_version(),
        'torch': torch.__version__,
        'cuda': torch.version.cuda,
        'nccl': '.'.join(map(str, torch.cuda.nccl.version())) if gpus else None,
        'best_dtype': best_dtype(get_device()),
        'mmengine': mmengine.__version__,
        'ttl_mm': __version__,
    }
