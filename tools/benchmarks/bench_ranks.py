"""What more ranks and more iterations cost: size of checkpoints, time of hooks.

    python tools/benchmarks/bench_ranks.py size [--ranks 8]
    python tools/benchmarks/bench_ranks.py hooks [--iterations 10000]

``size`` trains the recipe for digits with a memory bank of 51 MB, a gradient accumulated over
three iterations and a checkpoint after each, on one and on several gloo ranks, and compares the
files. ``hooks`` trains a tiny network with the default hooks and compares CPU time of all hooks of
an iteration at the start with that at the end, each divided by the time of a fixed piece of work.
Both exit with 1 above a ratio of 1.1.
"""

import argparse
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ttl_mm.engine  # isort: skip
import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer
from mmengine.model import BaseModel
from torch import multiprocessing, nn

from tools.figures import markdown
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.models import TTLAlgorithm
from ttl_mm.registry import MODELS

LIMIT = 1.1
ROOT = Path(__file__).resolve().parents[2]
RECIPE = 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'
WARM_UP, WINDOW = 50, 250  # iterations before the start, and of the start and of the end


@MODELS.register_module()
class WithBank(TTLAlgorithm):
    """A memory bank that is the same on every rank."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.register_buffer('bank', torch.zeros(100_000, 128))

    def loss(self, *args, **kwargs):
        self.bank += 1
        return super().loss(*args, **kwargs)


@MODELS.register_module()
class Tiny(BaseModel):
    """Next to no work beside the hooks."""

    def __init__(self, **settings) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, inputs, data_samples=None, mode='loss'):
        return {'loss': self.layer(inputs.float() / 255).tanh().mean()}


def recipe(work_dir: Path, iterations: int) -> Config:
    cfg = Config.fromfile(ROOT / RECIPE)
    cfg.work_dir, cfg.log_level = str(work_dir), 'ERROR'
    cfg.model.head.deputy = 2
    cfg.train_dataloader.update(batch_size=4, num_workers=0, persistent_workers=False)
    cfg.train_cfg = dict(type='ttl_mm.IterLoop', max_iters=iterations)
    cfg.default_hooks.update(gauges=None, probe=None)
    cfg.visualizer = dict(type='Visualizer', vis_backends=[])
    return cfg


def train_rank(rank: int, ranks: int, port: int, work_dir: Path) -> None:
    """Four iterations, in which the third makes a step."""
    torch.set_num_threads(1)
    place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, MASTER_PORT=port)
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR='127.0.0.1')
    cfg = recipe(work_dir, iterations=4)
    cfg.model.type = 'ttl_mm.WithBank'
    cfg.optim_wrapper.accumulative_counts = 3
    cfg.default_hooks.checkpoint = dict(type='ttl_mm.CheckpointHook', interval=1, by_epoch=False)
    cfg.launcher = 'pytorch' if ranks > 1 else 'none'
    ttl_mm.engine.Runner.from_cfg(cfg).train()


def compare_sizes(folder: Path, ranks: int) -> float:
    sizes = []
    for count in (1, ranks):
        with socket.socket() as sock:
            sock.bind(('127.0.0.1', 0))
            port = sock.getsockname()[1]
        work_dir = folder / str(count)
        multiprocessing.start_processes(
            train_rank, (count, port, work_dir), nprocs=count, start_method='fork'
        )
        files = sealed_files(work_dir)
        sizes.append({seal.iteration: path.stat().st_size for path, seal in files})
    rows = []
    for i in sorted(sizes[0]):
        one, many = (f'{size[i] / 1e6:.1f} MB' for size in sizes)
        rows.append([i, one, many, f'{sizes[1][i] / sizes[0][i]:.3f}'])
    print(markdown(['checkpoint of iteration', '1 rank', f'{ranks} ranks', 'ratio'], rows))
    return max(sizes[1][i] / sizes[0][i] for i in sizes[0])


def compare_times(folder: Path, iterations: int) -> float:
    torch.set_num_threads(1)
    cfg = recipe(folder / 'work', iterations)
    cfg.model = dict(type='ttl_mm.Tiny')
    cfg.train_dataloader.dataset.pipeline = [dict(type='PackInputs')]
    cfg.default_hooks.target_update = None
    runner = ttl_mm.engine.Runner.from_cfg(cfg)
    seconds, reference, call_hook = [0.0], [], runner.call_hook

    def timed(name: str, **arguments) -> None:
        began = time.process_time()
        call_hook(name, **arguments)
        seconds[-1] += time.process_time() - began
        if name == 'after_train_iter':
            seconds.append(0.0)
            reference.append(time_of_fixed_work())

    runner.call_hook = timed
    runner.train()
    windows = slice(WARM_UP, WARM_UP + WINDOW), slice(iterations - WINDOW - 1, iterations - 1)
    # medians: every 50th iteration is logged, the last is saved
    start, end = (1000 * float(np.median(seconds[w])) for w in windows)
    fixed = [float(np.median(reference[w])) for w in windows]
    ratio = end / start * fixed[0] / fixed[1]
    pieces = (f'{1000 * seconds:.3f} ms' for seconds in fixed)
    rows = [
        ['hooks of an iteration', f'{start:.3f} ms', f'{end:.3f} ms'],
        ['a fixed piece of work', *pieces],
        ['hooks / work, as a ratio to the start', '1', f'{ratio:.3f}'],
    ]
    print(markdown(['', 'at the start', f'after {iterations:,} iterations'], rows))
    return ratio


def time_of_fixed_work() -> float:
    """Seconds of what hooks do, on values that do not grow: a shared machine changes its speed."""
    began, log = time.process_time(), HistoryBuffer()
    for i in range(20):
        log.update(float(i))
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['size', 'hooks'])
    parser.add_argument('--ranks', type=int, default=8)
    parser.add_argument('--iterations', type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.what == 'size':
            ratio = compare_sizes(Path(folder), args.ranks)
        else:
            ratio = compare_times(Path(folder), args.iterations)
    return int(ratio > LIMIT)


if __name__ == '__main__':
    sys.exit(main())
