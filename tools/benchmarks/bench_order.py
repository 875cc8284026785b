"""How well windows mix: what the images of a batch have to do with each other.

    python tools/benchmarks/bench_order.py [--shards 1000] [--each 1000] [--batch 256]

Draws batches of an epoch in windows of several sizes, of shards whose images were written in the
order of their classes (one class a shard) and in a random order. It counts the different classes in
a batch, and how often two images of a batch come from the same shard and are in one batch of the
next epoch again, as a multiple of that in a complete shuffle. Counts only, so it is the same on any
machine; less than a minute.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SHARES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.45, 1)  # of all images in a window
EPOCH, SEED = 1, 0


def batches_of(order, images: int, batch: int, epoch: int) -> np.ndarray:
    """The images of whole batches (B, batch)."""
    places = np.arange(images // batch * batch)
    return order.at(places, SEED, epoch).reshape(-1, batch)


def pairs(groups: np.ndarray) -> float:
    """The share of pairs within each row (B, N) that are equal, on average."""
    ordered = np.sort(groups, axis=1)
    size, total = groups.shape[1], 0.0
    starts = np.diff(ordered, axis=1, prepend=-1) != 0
    for row in starts:
        counts = np.diff(np.append(np.flatnonzero(row), size))
        total += (counts * (counts - 1)).sum()
    return total / (len(groups) * size * (size - 1))


def main() -> None:
    from ttl_mm.datasets.epoch_order import Archives, EpochOrder

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--shards', type=int, default=1000)
    parser.add_argument('--each', type=int, default=1000, help='images of a shard')
    parser.add_argument('--batch', type=int, default=256)
    args = parser.parse_args()
    images = args.shards * args.each
    starts = np.arange(args.shards + 1) * args.each
    archives = Archives([f'{i}.tar' for i in range(args.shards)], starts)
    mixed = np.random.default_rng(0).permutation(images) // args.each  # class of each image
    print(
        '| window, share of all images | classes in a batch: shards sorted by class | shards in '
        'random order | two of a batch from one shard | two of a batch together again |'
    )
    print('|' + '---|' * 5)
    for share in SHARES:
        window = int(share * images) if share < 1 else 0
        order = EpochOrder(images, True, window, archives)
        batches = batches_of(order, images, args.batch, EPOCH)
        classes = np.mean([len(np.unique(row)) for row in batches // args.each])
        random = np.mean([len(np.unique(row)) for row in mixed[batches]])
        following = np.zeros(images, np.int64)  # the batch of each image in the next epoch
        after = batches_of(order, images, args.batch, EPOCH + 1)
        following[after.ravel()] = np.repeat(np.arange(len(after)), args.batch)
        same = pairs(batches // args.each) * images / args.each
        again = pairs(following[batches]) * images / args.batch
        print(f'| {share:.1%} | {classes:.1f} | {random:.1f} | {same:.1f} | {again:.1f} |')


if __name__ == '__main__':
    sys.path.insert(0, str(ROOT))
    main()
