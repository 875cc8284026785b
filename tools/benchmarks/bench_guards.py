"""What hooks and guards cost: their share of an iteration of a ResNet-18 at batch 64.

    python tools/benchmarks/bench_guards.py [--iterations 12] [--batch-size 64]

Trains on random images of 32 x 32 with every default hook of ``ttl_mm.Runner`` and takes the CPU
time of each call of theirs, of the look at the gradients before a step, and of seeding samples.
Iterations with and without the hooks take turns as a check from outside, which is noisier. Exits
with 1 if the share is above 1 %.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ttl_mm.engine  # isort: skip
import cv2
import numpy as np
import torch
from mmengine.config import Config

from tools.figures import markdown
from ttl_mm.datasets import train_samples
from ttl_mm.engine.guards.collapse import CollapseHook
from ttl_mm.engine.runner.substitutes import DEFAULT_HOOKS

RECIPE = 'configs/cifar10/ttl_ranks2-10_r18_cifar10_1xb104_200e.py'
LIMIT = 0.01
OURS = [hook['type'].removeprefix('ttl_mm.') for hook in DEFAULT_HOOKS.values()
        if hook['type'].startswith('ttl_mm.')]  # fmt: skip


def config(images: Path, work_dir: str, batch: int) -> Config:
    cfg = Config.fromfile(Path(__file__).resolve().parents[2] / RECIPE)
    cfg.work_dir, cfg.launcher, cfg.log_level = work_dir, 'none', 'ERROR'
    cfg.train_dataloader.update(batch_size=batch, num_workers=0, persistent_workers=False)
    cfg.train_dataloader.dataset = dict(
        type='ttl_mm.ImageFolder',
        data_root=str(images),
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(size=32), dict(size=32)]),
            dict(type='PackInputs'),
        ],
    )
    cfg.default_hooks.pop('probe', None)
    cfg.default_hooks.pop('gauges', None)
    return cfg


class Meter:
    """Seconds spent in functions, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.on = True

    def timed(self, name, function):
        def timing(*args, **kwargs):
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.process_time() - began

        return timing

    def watch(self, hook) -> None:
        for method in ('before_train_iter', 'after_train_iter', '_before_step'):
            if hasattr(hook, method):
                timing = self.timed(type(hook).__name__, getattr(hook, method))
                setattr(hook, method, self.switched(timing))

    def switched(self, function):
        return lambda *args, **kwargs: function(*args, **kwargs) if self.on else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--iterations', type=int, default=12)
    parser.add_argument('--batch-size', type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / 'images'
        images.mkdir()
        rng = np.random.default_rng(0)
        for i in range(args.batch_size * (args.iterations + 1)):
            image = rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            cv2.imwrite(str(images / f'{i}.jpg'), image)
        share = measure(config(images, folder + '/work', args.batch_size), args.iterations)
    return int(share > LIMIT)


def measure(cfg: Config, iterations: int) -> float:
    runner = ttl_mm.engine.Runner.from_cfg(cfg)
    meter, guards = Meter(), [h for h in runner.hooks if type(h).__name__ in OURS]
    for hook in guards:
        meter.watch(hook)
    seeded_for = train_samples.seeded_for
    train_samples.seeded_for = lambda index: Timed(seeded_for(index), meter)
    durations: dict[bool, list[float]] = {True: [], False: []}
    run_iter = ttl_mm.engine.EpochLoop.run_iter

    def alternating(loop, index, batch) -> None:
        meter.on = index % 2 == 0
        began = time.process_time()
        run_iter(loop, index, batch)
        durations[meter.on].append(time.process_time() - began)
        if index + 1 >= iterations:
            raise StopIteration

    ttl_mm.engine.EpochLoop.run_iter = alternating
    with contextlib.suppress(StopIteration):
        runner.train()
    return report(runner, meter, durations)


def report(runner, meter: Meter, durations: dict[bool, list[float]]) -> float:
    """Print the cost of every part in milliseconds an iteration, and return their share."""
    rounds = len(durations[True])
    iteration = float(np.median(durations[True] + durations[False]))
    look = collapse_look(runner)
    costs = {name: seconds / rounds for name, seconds in meter.seconds.items()}
    costs['seeding of samples'] /= 2  # happens in iterations without the hooks, too
    costs['CollapseHook'] = costs.get('CollapseHook', 0.0) + look / 50
    costs = dict(sorted(costs.items(), key=lambda item: -item[1]))
    costs['together'] = sum(costs.values())
    rows = [[n, f'{1000 * cost:.3f} ms', f'{cost / iteration:.3%}'] for n, cost in costs.items()]
    rows.append(['the iteration', f'{1000 * iteration:.0f} ms', ''])
    ratio = min(durations[True]) / min(durations[False])
    rows.append(['fastest one with hooks / without', f'{ratio:.4f}', ''])
    print(markdown(['part', 'an iteration', 'share'], rows))
    return costs['together'] / iteration


def collapse_look(runner) -> float:
    """Seconds of one look at the projections, which happens every 50 iterations."""
    hook = CollapseHook(interval=1)
    features = torch.randn(runner.cfg.train_dataloader.batch_size, 256)
    times = []
    for _ in range(5):
        hook.before_train_iter(runner, 0)
        hook._heard = features
        began = time.process_time()
        hook.after_train_iter(runner, 0)
        times.append(time.process_time() - began)
    return min(times)


class Timed:
    """A context manager whose entry and exit are timed."""

    def __init__(self, inner, meter: Meter) -> None:
        self.enter = meter.timed('seeding of samples', inner.__enter__)
        self.exit = meter.timed('seeding of samples', inner.__exit__)

    def __enter__(self):
        return self.enter()

    def __exit__(self, *exc):
        return self.exit(*exc)


if __name__ == '__main__':
    sys.exit(main())
