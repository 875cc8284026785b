"""Time and memory of exact kNN against those of the matrix product alone, in one process.

``python tools/benchmarks/bench_knn.py`` prints a table of docs/benchmarks.md: 10,000 queries
against 1,000,000 features of 256 dimensions. The product is taken in large tiles, which are the
fastest; contenders alternate and the fastest round of each counts. On a busy machine the processor
times are the steadier figure.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.evaluation import knn_classify


def features(count: int, dim: int, centers: torch.Tensor, spread: float, seed: int):
    """(count, dim) features around centers, in class order, and their labels."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(centers)
    x = torch.randn(count, dim, generator=rng).mul_(spread)
    for rows, own in zip(x.split(4096), labels.split(4096)):  # no second copy: memory is measured
        rows += centers[own]
    return x, labels


def product(train: torch.Tensor, test: torch.Tensor, queries: int, samples: int) -> None:
    """Every product of a query and a training sample, into one reused buffer."""
    buffer = torch.empty(queries * samples)
    for x in train.split(samples):
        for q in test.split(queries):
            torch.mm(q, x.T, out=buffer[: len(q) * len(x)].view(len(q), len(x)))


def seconds(function) -> tuple[float, float]:
    """Wall-clock and processor time of a call."""
    start = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def peak_memory() -> float:
    """Peak resident memory of this process in GB (Linux counts KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


HEADER = ['', 'time', 'processor time', 'memory beyond the features']


def cost_rows(name: str, times: dict[str, list], memory: dict[str, float]) -> list[list[str]]:
    """Fastest round and memory of the product, of the other contender, and their ratios."""
    (wall, cpu), (wall2, cpu2) = (tuple(map(min, zip(*rounds))) for rounds in times.values())
    first, second = memory.values()
    return [
        ['the product alone', f'{wall:.1f} s', f'{cpu:.1f} s', f'{first:.3f} GB'],
        [name, f'{wall2:.1f} s', f'{cpu2:.1f} s', f'{second:.3f} GB'],
        ['ratio', f'{wall2 / wall:.2f}', f'{cpu2 / cpu:.2f}', ''],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--queries', type=int, default=10_000)
    parser.add_argument('--samples', type=int, default=1_000_000)
    parser.add_argument('--dim', type=int, default=256)
    parser.add_argument('--k', type=int, default=20)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--threads', type=int, default=torch.get_num_threads())
    parser.add_argument('--classes', type=int, default=1000)
    parser.add_argument('--spread', type=float, default=1.0, help='noise around class centers')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    centers = torch.randn(args.classes, args.dim, generator=torch.Generator().manual_seed(0))
    train, labels = features(args.samples, args.dim, centers, args.spread, seed=1)
    test, _ = features(args.queries, args.dim, centers, args.spread, seed=2)
    contenders = {
        'product': lambda: product(train, test, 8192, 4096),
        'kNN': lambda: knn_classify(train, labels, test, k=args.k),
    }
    times = {name: [] for name in contenders}
    memory = {}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            before = peak_memory()
            times[name].append(seconds(run))
            memory.setdefault(name, peak_memory() - before)
    print(markdown(HEADER, cost_rows(f'kNN, k = {args.k}', times, memory)))


if __name__ == '__main__':
    main()
