"""Time and memory of exact kNN against those of the matrix product alone, in one process.

``python tools/benchmarks/bench_knn.py`` prints the figures of docs/evaluation.md: 10,000 queries
against 1,000,000 features of 256 dimensions. The product is taken in large tiles, which are the
fastest; contenders alternate and the fastest round of each counts. On a busy machine the processor
times are the steadier figure.
"""

import argparse
import resource
import time

import torch

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
    print(f'{args.queries} queries, {args.samples} x {args.dim} features, k = {args.k},')
    print(f'{args.threads} threads, best of {args.rounds} alternating rounds')
    wall, cpu = ({name: min(t[i] for t in times[name]) for name in times} for i in (0, 1))
    for name in contenders:
        print(f'{name:8s} {wall[name]:7.1f} s  {cpu[name]:7.1f} CPU s  +{memory[name]:.3f} GB')
    for what, best in (('time', wall), ('processor time', cpu)):
        print(f'kNN / product, {what}: {best["kNN"] / best["product"]:.3f}')


if __name__ == '__main__':
    main()
