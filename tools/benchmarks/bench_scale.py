"""Does the model of docs/scale.md hold on gloo processes, and what does it say of 512 GPUs?

    python tools/benchmarks/bench_scale.py check    # two minutes without other work
    python tools/benchmarks/bench_scale.py table    # prints the tables of docs/scale.md

``check`` fits the model to parts alone: iterations of processes that do not know of each other, and
single collectives. Then it trains on 1, 2 and 4 gloo processes, which no coefficient has seen, and
compares. Every process has one thread and is bound to a core; where there are more processes than
cores, some share one, and the model takes that from the runs of processes that do not communicate.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ttl_mm.engine  # isort: skip
import numpy as np
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from scale_model import Gloo, Work, step_time, tables
from scipy.optimize import nnls
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.utils.data import Dataset

from ttl_mm.registry import DATASETS, MODELS

ROOT = Path(__file__).resolve().parents[2]
RECIPE = 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'
CORES = sorted(os.sched_getaffinity(0))
WARM_UP, MEASURED = 4, 8  # iterations
SIZES = (256, 4096, 2**16, 2**20, 2**22, 2**24)  # bytes of single collectives
TURNS = {256: 200, 4096: 200, 2**16: 100, 2**20: 40, 2**22: 20, 2**24: 10}
WORK = 15  # small products before a collective, about a millisecond


@dataclass(frozen=True)
class Setting:
    """A small training run."""

    hidden: int  # width of the two perceptrons, and so the size of the gradient
    batch: int
    sync: bool = False  # SyncBN
    accumulation: int = 1
    wait: float = 0.0  # seconds that a worker waits for an image, as for a slow store

    @property
    def norm(self) -> str:
        return 'SyncBN' if self.sync else 'BN'

    def __str__(self) -> str:
        more = f', accumulated {self.accumulation}' if self.accumulation > 1 else ''
        slow = f', {1000 * self.wait:g} ms to load an image' if self.wait else ''
        return f'{self.norm}, {self.batch} images, hidden {self.hidden}{more}{slow}'


class _SyncedNorm(torch.autograd.Function):
    """The messages of torch's SyncBN, which refuses tensors on a CPU, and its arithmetic."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        dims = [0, *range(2, x.ndim)]
        count = x.numel() / x.shape[1]
        own = torch.cat([x.mean(dims), x.var(dims, correction=0), x.new_tensor([count])])
        CALLS['gathers'].append(own.nbytes)
        found = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(found, own)
        table, c = torch.stack(found), x.shape[1]
        mean = table[:, :c].mean(0)
        var = (table[:, c : 2 * c] + (table[:, :c] - mean) ** 2).mean(0)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        scale = (var + eps).rsqrt()
        normal = (x - mean.view(shape)) * scale.view(shape)
        ctx.save_for_backward(normal, weight, scale)
        ctx.count = count * len(found)
        return normal * weight.view(shape) + bias.view(shape)

    @staticmethod
    def backward(ctx, grad):
        normal, weight, scale = ctx.saved_tensors
        dims, shape = [0, *range(2, grad.ndim)], (1, -1) + (1,) * (grad.ndim - 2)
        for_bias, for_weight = grad.sum(dims), (grad * normal).sum(dims)
        sums = torch.cat([for_bias, for_weight])
        CALLS['reduces'].append(sums.nbytes)
        dist.all_reduce(sums)
        first, second = (part.view(shape) / ctx.count for part in sums.chunk(2))
        result = (grad - first - normal * second) * (weight * scale).view(shape)
        return result, for_weight, for_bias, None


CALLS: dict[str, list[int]] = {'gathers': [], 'reduces': []}  # of this process


@MODELS.register_module()
class GlooSyncBN(nn.BatchNorm2d):
    """SyncBN on a CPU, whose arithmetic takes longer than that of BN, also in a group of one."""

    def _check_input_dim(self, input) -> None:
        pass

    def forward(self, input):
        if not dist.is_initialized():
            return super().forward(input)
        return _SyncedNorm.apply(input, self.weight, self.bias, self.eps)


@DATASETS.register_module()
class WaitingImages(Dataset):
    """Two views of noise, after a wait that costs the processor nothing."""

    def __init__(self, wait: float, pipeline: Sequence = ()) -> None:
        self.wait = wait
        rng = np.random.default_rng(0)
        self.views = [torch.from_numpy(rng.integers(0, 256, (1, 16, 16), np.uint8)) for _ in '12']

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.wait:
            time.sleep(self.wait)
        return {'inputs': self.views, 'data_samples': index}


@HOOKS.register_module()
class TimesHook(Hook):
    """When iterations end; all processes begin together."""

    priority = 'LOWEST'
    barrier: Any = None

    def before_train(self, runner) -> None:
        self.times: list[float] = []
        if TimesHook.barrier is not None:
            TimesHook.barrier.wait()

    def before_train_iter(self, *args, **kwargs) -> None:
        for sizes in CALLS.values():
            sizes.clear()

    def after_train_iter(self, *args, **kwargs) -> None:
        self.times.append(time.perf_counter())


def config_of(setting: Setting, work_dir: Path) -> Config:
    cfg = Config.fromfile(ROOT / RECIPE)
    cfg.work_dir, cfg.log_level = str(work_dir), 'ERROR'
    kinds = ['ttl_mm.GlooSyncBN'] * 2 if setting.sync else ['BN', 'BN1d']
    norm = [dict(type=kind) for kind in kinds]
    cfg.model.backbone.norm_cfg = norm[0]
    for mlp in (cfg.model.neck, cfg.model.head.predictor):
        mlp.update(hid_channels=setting.hidden, norm_cfg=norm[1])
    cfg.train_dataloader.update(
        batch_size=setting.batch, num_workers=int(setting.wait > 0), prefetch_factor=None,
        persistent_workers=False,
    )  # fmt: skip
    cfg.train_dataloader.dataset = dict(type='ttl_mm.WaitingImages', wait=setting.wait)
    iterations = setting.accumulation * -(-(WARM_UP + MEASURED) // setting.accumulation)
    cfg.train_cfg = dict(type='ttl_mm.IterLoop', max_iters=iterations)
    cfg.param_scheduler = None
    cfg.optim_wrapper.accumulative_counts = setting.accumulation
    off = dict.fromkeys(('gauges', 'probe', 'checkpoint', 'collapse', 'symptoms'))
    cfg.default_hooks.update(**off, logger=dict(type='LoggerHook', interval=10**6))
    cfg.custom_hooks = [dict(type='TimesHook')]
    cfg.visualizer = dict(type='Visualizer', vis_backends=[])
    return cfg


def bind(rank: int) -> None:
    """One thread, on a core of its own if there are enough."""
    os.sched_setaffinity(0, {CORES[rank % len(CORES)]})
    torch.set_num_threads(1)


def join(rank: int, ranks: int, port: int) -> None:
    place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, MASTER_PORT=port)
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR='127.0.0.1')


def train_rank(rank, ranks, port, setting, together, folder, barrier, results) -> None:
    bind(rank)
    warnings.simplefilter('ignore')  # of mmengine, about what it sets itself
    if together:
        join(rank, ranks, port)
    else:  # a group of one, which has the costs of DistributedDataParallel, and no messages
        join(0, 1, free_port())
    TimesHook.barrier = barrier
    cfg = config_of(setting, folder / ('run' if together else f'run_{rank}'))
    cfg.launcher = 'pytorch'
    runner = ttl_mm.engine.Runner.from_cfg(cfg)
    runner.train()
    hook = next(h for h in runner.hooks if isinstance(h, TimesHook))
    a = setting.accumulation
    ends = hook.times[a - 1 :: a]  # of optimizer steps
    steps = np.diff(ends[max(1, WARM_UP // a) - 1 :])
    weights = sum(p.nbytes for p in runner.model.parameters() if p.requires_grad)
    results.put(
        (float(np.median(steps)), weights, tuple(CALLS['gathers']), tuple(CALLS['reduces']))
    )


def collectives_rank(rank, ranks, port, results) -> None:
    """Seconds of single collectives, each after a millisecond of work, as in training.

    Gloo's own threads share the core with that work: messages between idle ranks are far quicker.
    """
    bind(rank)
    join(rank, ranks, port)
    dist.init_process_group('gloo')
    square = torch.ones(128, 128)

    def seconds(job: Callable[[], Any], turns: int) -> float:
        spent = []
        for _ in range(turns):
            began = time.perf_counter()
            for _ in range(WORK):
                square @ square
            job()
            spent.append(time.perf_counter() - began)
        return statistics.mean(sorted(spent)[turns // 10 : turns - turns // 10])

    work = seconds(lambda: None, TURNS[SIZES[0]])
    for size in SIZES:
        values = torch.zeros(size // 4)
        gathered = [torch.empty_like(values) for _ in range(ranks)]
        jobs = {'reduce': lambda v=values: dist.all_reduce(v)}
        if size <= 2**16:
            jobs['gather'] = lambda g=gathered, v=values: dist.all_gather(g, v)
        for name, job in jobs.items():
            dist.barrier()
            spent = seconds(job, TURNS[size]) - work
            if rank == 0:
                results.put((name, size, ranks, spent))
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


def processes(target, ranks: int, *arguments) -> list:
    """What ``ranks`` processes put into a queue."""
    port = free_port()
    results = multiprocessing.get_context('fork').SimpleQueue()
    context = multiprocessing.start_processes(
        target, (ranks, port, *arguments, results), nprocs=ranks, start_method='fork', join=False
    )
    found = []
    while not context.join(timeout=0.05):
        while not results.empty():
            found.append(results.get())
    while not results.empty():
        found.append(results.get())
    return found


def train(setting: Setting, ranks: int, together: bool = True) -> tuple:
    """Seconds of a step, bytes of the gradient, messages of SyncBN in an iteration.

    Not ``together``: processes that do not know of each other, and only use the same machine.
    """
    barrier = multiprocessing.get_context('fork').Barrier(ranks)
    with tempfile.TemporaryDirectory() as folder:
        found = processes(train_rank, ranks, setting, together, Path(folder), barrier)
    return (statistics.mean(row[0] for row in found), *found[0][1:])


def fit_collectives(points: Sequence[tuple[str, int, int, float]]) -> tuple[Gloo, list[float]]:
    """Time of a turn, of a byte and of a call, and the relative errors that remain."""

    def seconds(gloo: Gloo, name: str, size: int, ranks: int) -> float:
        return (gloo.all_gather if name == 'gather' else gloo.all_reduce)(size, ranks)

    cores = len(CORES)
    units = Gloo(1, 0, cores), Gloo(0, 1, cores), Gloo(0, 0, cores, call=1)
    table = np.array([[seconds(unit, *point[:3]) for unit in units] for point in points])
    spent = np.array([point[3] for point in points])
    found, _ = nnls(table / spent[:, None], np.ones(len(points)))
    turn, byte, call = found.tolist()
    return Gloo(turn, byte, cores, call), (table @ found / spent - 1).tolist()


NARROW, WIDE = 256, 16384  # gradients of 3 and of 24 MB
HELD_OUT = [
    *((Setting(hidden, 24), 1) for hidden in (NARROW, WIDE)),
    *((Setting(hidden, 24, sync), ranks) for ranks in (2, 4) for hidden in (NARROW, WIDE)
      for sync in (False, True)),
    (Setting(WIDE, 24, accumulation=4), 2), (Setting(WIDE, 24, accumulation=4), 4),
    (Setting(NARROW, 24, wait=0.002), 2), (Setting(NARROW, 24, wait=0.012), 2),
]  # fmt: skip


def check() -> None:
    """Fit to parts, then compare with whole runs."""
    parts: dict[tuple[int, bool], tuple[float, float, float]] = {}  # start, per image, update
    alone, crowded = {}, {1: 1.0}
    for hidden, sync in product((NARROW, WIDE), (False, True)):
        few, many, four = (
            train(Setting(hidden, batch, sync, accumulation), 1, together=False)
            for batch, accumulation in ((16, 1), (32, 1), (32, 4))
        )
        alone[hidden, sync] = many[0]
        slope = (many[0] - few[0]) / 16
        update = max(0.0, (4 * many[0] - four[0]) / 3)  # four steps have four, one step has one
        parts[hidden, sync] = few[0] - 16 * slope - update, slope, update
        start, slope, update = (1000 * part for part in parts[hidden, sync])
        print(f'- {Setting(hidden, 1, sync).norm}, hidden {hidden}: {start:.1f} ms + {slope:.2f} '
              f'ms per image + {update:.1f} ms per update, gradient {many[1] / 1e6:.1f} MB',
              flush=True)  # fmt: skip
    for ranks in (2, 4):
        ratios = [train(Setting(hidden, 32), ranks, together=False)[0] / alone[hidden, False]
                  for hidden in (NARROW, WIDE)]  # fmt: skip
        crowded[ranks] = statistics.mean(ratios)
        shown = ', '.join(f'{ratio:.2f}' for ratio in ratios)
        print(f'- {ranks} processes that do not communicate: {shown} times as long', flush=True)
    points = [row for ranks in (2, 4) for row in processes(collectives_rank, ranks)]
    gloo, errors = fit_collectives(points)
    for (name, size, ranks, spent), error in zip(points, errors):
        print(f'  {name} {size:>9} bytes, {ranks} ranks: {1000 * spent:8.3f} ms, fit {error:+.0%}',
              file=sys.stderr)  # fmt: skip
    print(f'- gloo: {1e3 * gloo.call:.2f} ms a collective, {1e6 * gloo.turn:.0f} us a turn, '
          f'{1e9 * gloo.byte:.3f} ns a byte, {gloo.cores} cores', flush=True)  # fmt: skip
    off = []
    print('\n| held out | p | model | measured | off |\n|---|---|---|---|---|')
    for setting, ranks in HELD_OUT:
        measured, gradient, gathers, reduces = train(setting, ranks)
        start, slope, update = parts[setting.hidden, setting.sync]
        work = Work(setting.batch, start + slope * setting.batch, 0.0, gradient, gathers, reduces,
                    setting.accumulation, update)  # fmt: skip
        step = step_time(work, ranks, gloo, setting.wait * setting.batch, crowded[ranks])
        off.append(step.seconds / measured - 1)
        print(f'| {setting} | {ranks} | {1000 * step.seconds:.0f} ms | {1000 * measured:.0f} ms '
              f'| {off[-1]:+.0%} |', flush=True)  # fmt: skip
    sizes = [abs(error) for error in off]
    print(f'\n{len(off)} runs that no coefficient has seen: median error '
          f'{statistics.median(sizes):.0%}, largest {max(sizes):.0%}')  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['check', 'table'])
    if parser.parse_args().what == 'check':
        check()
    else:
        print(tables())
    return 0


if __name__ == '__main__':
    sys.exit(main())
