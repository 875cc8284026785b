"""What --amp, --compile and --checkpoint-activations cost and save: time, memory, and the result.

    python tools/benchmarks/bench_speed.py [--rounds 5] [--batch-size 32] [--size 64] [--float64]

One iteration (forward, backward and optimizer step) of the recipe for CIFAR-10, a ResNet-18 with
two views, with each option and with pairs of them, as ratios to the plain one. Contenders take
turns, and the fastest round of each counts. Loss and gradient of the first batch are compared with
the plain ones: the options must not change them, but for half precision.
"""

import ttl_mm.registry  # noqa: F401  isort: skip
import argparse
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from bench_method import fastest, peak_bytes
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import MMLogger
from mmengine.model import revert_sync_batchnorm
from mmengine.optim import OptimWrapper
from mmengine.registry import init_default_scope

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.engine import AmpOptimWrapper
from ttl_mm.engine.runner.networks import prepare_networks
from ttl_mm.registry import MODELS

RECIPE = 'configs/cifar10/ttl_ranks2-10_r18_cifar10_1xb104_200e.py'
OPTIONS: dict[str, dict] = {
    'plain': {},
    '--checkpoint-activations': {'checkpoint_activations': True},
    '--compile': {'compile': True},
    '--compile --checkpoint-activations': {'compile': True, 'checkpoint_activations': True},
    '--amp bf16': {'dtype': 'bfloat16'},
}


def make_iteration(model, views: list[torch.Tensor], options: dict) -> Callable[[], tuple]:
    """A function that trains one iteration; gives the loss and the gradient as one vector."""
    prepare_networks(model, options)
    weights = [p for p in model.parameters() if p.requires_grad]
    kind = {'cls': AmpOptimWrapper, 'dtype': options['dtype']} if 'dtype' in options else {}
    optimizer = torch.optim.SGD(weights, lr=1e-4, momentum=0.9)
    wrapper = kind.pop('cls', OptimWrapper)(optimizer=optimizer, **kind)

    def iterate() -> tuple[torch.Tensor, torch.Tensor]:
        model.set_progress(seed=0, iteration=0)
        with wrapper.optim_context(model):
            loss = model.loss(list(views), None)['loss']
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in weights])
        wrapper.step()
        wrapper.zero_grad()
        model.update_target(0.99)
        return loss.detach(), gradient

    return iterate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument(
        '--wall-clock', action='store_true', help='for a machine without other work'
    )
    text = 'leave out --compile, whose first iteration takes minutes'
    parser.add_argument('--without-compile', action='store_true', help=text)
    text = 'without the rounding of float32, to which an untrained network is sensitive'
    parser.add_argument('--float64', action='store_true', help=text)
    args = parser.parse_args()
    device, clock = get_device(), time.perf_counter if args.wall_clock else time.process_time
    MMLogger.get_instance('bench_speed', log_level='ERROR')
    cfg = Config.fromfile(Path(__file__).resolve().parents[2] / RECIPE)
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    model = revert_sync_batchnorm(MODELS.build(cfg.model))
    model.init_weights()
    dtype = torch.float64 if args.float64 else torch.float32
    model = model.to(dtype)
    shape = args.batch_size, 3, args.size, args.size
    # large shapes and colors: images that are all alike have no gradient that can be compared
    shapes = torch.randn(args.batch_size, 3, 4, 4)
    base = torch.nn.functional.interpolate(shapes, shape[2:], mode='bilinear')
    views = [(base + 0.3 * torch.randn(shape)).to(device, dtype) for _ in range(2)]
    runs, rows = {}, {}
    for name, options in OPTIONS.items():
        if args.without_compile and 'compile' in options:
            continue
        runs[name] = make_iteration(deepcopy(model).to(device), views, options)
        began = time.perf_counter()
        loss, gradient = runs[name]()
        rows[name] = [time.perf_counter() - began, float(loss), gradient]
    seconds = fastest(runs, args.rounds, device, clock)
    peaks = {name: peak_bytes(run, device) for name, run in runs.items()}
    _, plain_loss, plain_gradient = rows['plain']
    table = []
    for name, (first, loss, gradient) in rows.items():
        off = float((gradient - plain_gradient).norm() / plain_gradient.norm())
        ratios = seconds[name] / seconds['plain'], peaks[name] / peaks['plain']
        shown = [f'{ratio:.2f}' for ratio in ratios]
        if name == 'plain':
            shown = [f'{1000 * seconds[name]:.0f} ms', f'{peaks[name] / 1e6:.1f} MB']
        offs = (f'{value:.1e}' if value else '0' for value in (abs(loss - plain_loss), off))
        table.append([name if name == 'plain' else f'`{name}`', *shown, f'{first:.1f} s', *offs])
    header = ['option', 'time', 'memory', 'first iteration', 'loss off by']
    print(markdown([*header, 'gradient off by, of its length'], table))


if __name__ == '__main__':
    main()
