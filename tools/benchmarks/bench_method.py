"""The method against a per-row loop and against mmpretrain's BYOL, as ratios in one process.

``python tools/benchmarks/bench_method.py PART`` prints a table of docs/benchmarks.md. Contenders
alternate, and the fastest round of each counts. It runs on the device of ``--device``; the figures
of the documents are from two CPU cores.
"""

import ttl_mm.registry  # noqa: F401  isort: skip
import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from mmengine.config import ConfigDict
from mmengine.logging import MessageHub, MMLogger
from mmengine.optim import OptimWrapper
from mmengine.registry import init_default_scope
from mmpretrain.engine.optimizers import LARS as MMPretrainLARS
from mmpretrain.models.utils.ema import CosineEMA
from mmpretrain.registry import MODELS
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.engine import LARS
from ttl_mm.models import truncated_triplet_loss

OPTIMIZER = dict(lr=0.1, momentum=0.9, weight_decay=1e-6)


def fastest(
    contenders: dict, rounds: int, device: str, clock=time.perf_counter
) -> dict[str, float]:
    """Seconds of the fastest round of each contender, run in turn."""
    best = dict.fromkeys(contenders, float('inf'))
    for _ in range(rounds + 1):  # the first round warms up, and is never the fastest
        for name, run in contenders.items():
            start = clock()
            run()
            if device != 'cpu':
                torch.cuda.synchronize()
            best[name] = min(best[name], clock() - start)
    return best


def clock_of(args: argparse.Namespace):
    return time.process_time if args.cpu_time else time.perf_counter


def row_loop(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The released smoothed head, anchor by anchor."""
    q, z = nn.functional.normalize(query), nn.functional.normalize(key)
    losses = []
    for i in range(len(q)):
        distances = -(z @ q[i])
        negatives = torch.cat([distances[:i], distances[i + 1 :]])
        deputy = negatives.topk(10, largest=False).values[1:].mean()
        losses.append((2 * distances[i] - deputy).clamp(min=-100))
    return torch.stack(losses).mean()


def bench_head(rows: int, threads: int, args: argparse.Namespace) -> list:
    torch.set_num_threads(threads)
    rounds, device, clock = 10 * args.rounds, args.device, clock_of(args)
    # new numbers in every round, so that nothing is learned from the round before
    queries = [torch.randn(rows, 256, device=device, requires_grad=True) for _ in range(8)]
    keys = [torch.randn(rows, 256, device=device) for _ in range(8)]

    def rounds_of(loss: Callable):
        batches = cycle(zip(queries, keys, strict=True))

        def run() -> None:
            query, key = next(batches)
            loss(query, key).backward()
            query.grad = None

        return run

    contenders = {
        'loop': rounds_of(row_loop),
        'ours': rounds_of(partial(truncated_triplet_loss, ranks=(2, 10))),
    }
    in_turn = fastest(contenders, rounds, device, clock)  # on caches that the other has filled
    alone = {}
    for name, contender in contenders.items():
        alone |= fastest({name: contender}, rounds, device, clock)
    times = [
        f'{1e3 * s["loop"]:.2f} / {1e3 * s["ours"]:.2f} ms = {s["loop"] / s["ours"]:.1f}x'
        for s in (in_turn, alone)
    ]
    return [rows, threads, *times]


class CountSyncs(TorchDispatchMode):
    """Count the operations that make the host wait for the device."""

    SYNCS = ('_local_scalar_dense', 'nonzero', 'is_nonzero', 'equal')

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.SYNCS:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def modules(depth: int, channels: int, hidden: int = 4096, out: int = 256) -> dict:
    """Backbone, projector and predictor that both algorithms get."""
    neck = dict(
        type='NonLinearNeck',
        hid_channels=hidden,
        out_channels=out,
        with_bias=True,
        with_last_bias=True,
        with_last_bn=False,
        norm_cfg=dict(type='BN1d'),
    )
    return dict(
        backbone=dict(type='ResNet', depth=depth),
        neck=dict(neck, in_channels=channels),
        predictor=dict(neck, in_channels=out, with_avg_pool=False),
    )


def build_ours(backbone: dict, neck: dict, predictor: dict, channels_last=False) -> nn.Module:
    head = dict(type='ttl_mm.TruncatedTripletHead', deputy=(2, 10), predictor=predictor)
    return MODELS.build(
        ConfigDict(
            type='ttl_mm.TTLAlgorithm',
            backbone=backbone,
            neck=neck,
            head=head,
            online_sizes=None,
            target_sizes=None,
            channels_last=channels_last,
        )
    )


def build_byol(backbone: dict, neck: dict, predictor: dict) -> nn.Module:
    loss = dict(type='CosineSimilarityLoss')
    head = dict(type='LatentPredictHead', loss=loss, predictor=predictor)
    return MODELS.build(ConfigDict(type='BYOL', backbone=backbone, neck=neck, head=head))


def bench_target(args: argparse.Namespace) -> list[list]:
    model = build_ours(**modules(50, 2048)).to(args.device)
    online = nn.Sequential(model.backbone, model.neck)
    ema = CosineEMA(online, momentum=0.01).to(args.device)
    ema.update_parameters(online)  # the first call copies
    with torch.no_grad():
        seconds = fastest(
            {
                'mmpretrain': lambda: ema.update_parameters(online),
                'ours': lambda: model.update_target(0.99),
            },
            args.rounds,
            args.device,
            clock_of(args),
        )
    ratio = seconds['mmpretrain'] / seconds['ours']
    times = (f'{1e3 * seconds[name]:.2f} ms' for name in ('mmpretrain', 'ours'))
    return [['target update of ResNet-50, against CosineEMA', *times, f'{ratio:.2f}x as fast']]


def optimizers(model: nn.Module) -> dict:
    """Both LARS over a copy of the same model each, with gradients; one group per tensor."""
    found = {}
    for name, kind in (('mmpretrain', MMPretrainLARS), ('ours', LARS)):
        copy = deepcopy(model)
        groups = [
            dict(params=[p], lars_exclude=p.ndim == 1) for p in copy.parameters() if p.requires_grad
        ]
        for group in groups:
            group['params'][0].grad = torch.randn_like(group['params'][0])
        found[name] = kind(groups, **OPTIMIZER)
    return found


def bench_lars(args: argparse.Namespace) -> list[list]:
    contenders = optimizers(build_ours(**modules(50, 2048)).to(args.device))
    syncs = {}
    for name, optimizer in contenders.items():
        optimizer.step()
        with CountSyncs() as count:
            optimizer.step()
        syncs[name] = sum(count.found.values())
    steps = {name: optimizer.step for name, optimizer in contenders.items()}
    seconds = fastest(steps, args.rounds, args.device, clock_of(args))
    ratio = seconds['mmpretrain'] / seconds['ours']
    times = (f'{1e3 * seconds[name]:.1f} ms' for name in ('mmpretrain', 'ours'))
    return [
        ['LARS step of ResNet-50', *times, f'{ratio:.2f}x as fast'],
        ['host syncs in it', syncs['mmpretrain'], syncs['ours'], ''],
    ]


def iterations(batch: int, size: int, device: str) -> dict:
    """One training iteration of either algorithm on the same views."""
    views = [torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8) for _ in range(2)]

    def contender(model: nn.Module, kind: type):
        model.init_weights()
        model.to(device).train()
        groups = [dict(params=[p]) for p in model.parameters() if p.requires_grad]
        wrapper = OptimWrapper(kind(groups, **OPTIMIZER))

        def step() -> None:
            model.train_step(dict(inputs=list(views), data_samples=[]), wrapper)
            if kind is LARS and wrapper.should_update():  # BYOL updates its target by itself
                model.update_target(0.99)

        return step

    return {
        'BYOL': contender(build_byol(**modules(18, 512)), MMPretrainLARS),
        'ours': contender(build_ours(**modules(18, 512)), LARS),
        'ours, channels last': contender(build_ours(**modules(18, 512), channels_last=True), LARS),
    }


def bench_iteration(threads: int, args: argparse.Namespace) -> list:
    batch, size = args.batch_size, args.size
    torch.set_num_threads(threads)
    contenders = iterations(batch, size, args.device)
    seconds = fastest(contenders, args.rounds, args.device, clock_of(args))
    byol, *ours = seconds.values()
    return [threads, f'{byol:.3f} s', *(f'{s:.3f} s = {s / byol:.3f}x' for s in ours)]


def peak_bytes(run, device: str) -> int:
    """Most memory that tensors took during ``run`` beyond what was there before."""
    run()  # optimizer state and gradients are there afterwards
    if device != 'cpu':
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    used = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == '[memory]':
            used += event.nbytes()
            peak = max(peak, used)
    return peak


def bench_memory(batch: int, size: int, device: str) -> list[list]:
    contenders = iterations(batch, size, device)
    peaks = {name: peak_bytes(run, device) for name, run in contenders.items()}
    byol, ours, channels_last = peaks.values()
    what = (
        f'peak memory of an iteration of ResNet-18, two views of {batch} x {size} px, against BYOL'
    )
    found = (what, ours), ('the same, `channels_last=True`', channels_last)
    return [
        [name, f'{byol / 1e6:.3f} MB', f'{peak / 1e6:.3f} MB', f'{peak / byol:.3f}x']
        for name, peak in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('parts', nargs='*', help='head, target, lars, iteration, memory; or all')
    parser.add_argument('--rounds', type=int, default=12)
    parser.add_argument('--batch-size', type=int, default=64)
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument('--threads', type=int, nargs='+', default=[1, 2], help='of head, iteration')
    parser.add_argument(
        '--cpu-time',
        action='store_true',
        help='CPU time instead of the clock, where other work runs (OMP_WAIT_POLICY=passive)',
    )
    parser.add_argument('--device', default='cpu')
    args = parser.parse_args()

    MMLogger.get_instance('bench', log_level='ERROR')
    init_default_scope('mmpretrain')
    MessageHub.get_instance('bench').update_info('max_iters', 10_000)
    torch.manual_seed(0)
    parts = {
        'head': lambda: [bench_head(n, t, args) for t in args.threads for n in (104, 196)],
        'iteration': lambda: [bench_iteration(threads, args) for threads in args.threads],
        'target': lambda: bench_target(args),
        'lars': lambda: bench_lars(args),
        'memory': lambda: bench_memory(args.batch_size, args.size, args.device),
    }
    clock = 'CPU time' if args.cpu_time else 'wall clock'
    headers = {
        'head': ['rows', 'threads', f'loop / ours, in turn, {clock}', 'each alone'],
        'iteration': ['threads', f'BYOL, {clock}', 'ours', 'ours, `channels_last=True`'],
    }
    tables: dict[tuple, list] = {}
    for name in args.parts or parts:
        torch.set_num_threads(1)
        header = tuple(headers.get(name, [f'what ({clock})', 'mmpretrain', 'ours', 'ratio']))
        tables.setdefault(header, []).extend(parts[name]())
    print('\n\n'.join(markdown(header, rows) for header, rows in tables.items()))


if __name__ == '__main__':
    main()
