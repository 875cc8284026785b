"""How many planted copies ``ttl duplicates`` finds, and what its search costs at a million images.

``python tools/benchmarks/bench_duplicates.py copies --data DIR [--weights FILE ...]`` takes 1,800
images of DIR, plants altered copies of 200 of them (compressed again, resized, cropped, mirrored,
brighter or darker: 40 each) and exact copies of 20, runs ``ttl duplicates``, and prints recall and
precision: of an untrained network first, then of every FILE.

``python tools/benchmarks/bench_duplicates.py million`` compares time and memory of the search among
1,000,000 x 256 features with those of the matrix product alone, for some of the queries: panels of
queries are independent, so that the ratio is that of all. Contenders alternate; the fastest round
of each counts.
"""

import argparse
import csv
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch

import ttl_mm.registry  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.benchmarks.bench_knn import HEADER, cost_rows, features, peak_memory, product, seconds
from tools.figures import markdown
from ttl_mm.datasets.decode import decode_image
from ttl_mm.evaluation.model import load_model
from ttl_mm.explore.duplicates import ALTERATIONS, Centered, altered_copy, leaked_pairs, mean_of
from ttl_mm.explore.find_duplicates import find_duplicates
from ttl_mm.planning.image_sources import find_images

IMAGES, COPIES, EXACT = 2000, 200, 20
SEED = 7  # of the planted copies; the threshold is found with others


def plant(data: Path, folder: Path, seed: int = SEED) -> dict[str, tuple[str, str]]:
    """Fill a folder; of every planted file the name of its original and the kind of copy."""
    rng = np.random.default_rng(seed)
    found = find_images([data])
    names = list(found.names())
    chosen = rng.choice(len(names), IMAGES - COPIES, replace=False)
    originals = []
    for number, i in enumerate(chosen):
        path = found.root / names[i]
        originals.append(f'{number:04}{path.suffix}')
        shutil.copy(path, folder / originals[-1])
    planted = {}
    for number, name in enumerate(originals[:COPIES]):
        copy = altered_copy(decode_image(str(folder / name)), number, rng)
        kind = ALTERATIONS[number % len(ALTERATIONS)].__name__.strip('_')
        planted[f'copy{number:03}.jpg'] = name, kind
        options = [cv2.IMWRITE_JPEG_QUALITY, 95]
        cv2.imwrite(str(folder / f'copy{number:03}.jpg'), copy, options)
    for name in originals[-EXACT:]:
        planted[f'exact_{name}'] = name, 'exact'
        shutil.copy(folder / name, folder / f'exact_{name}')
    return planted


def measure(
    folder: Path, planted: dict[str, tuple[str, str]], weights: str, size: int, out: Path
) -> dict[str, str]:
    """Run the search; what it found of each kind, and what else."""
    out.mkdir()
    options = {'size': size, 'batch_size': 64, 'num_workers': 0}
    lines = list(find_duplicates(find_images([folder]), None, weights, None, out, options))
    print(lines[1], file=sys.stderr)
    groups: dict[str, str] = {}
    with (out / 'duplicates.csv').open(newline='') as file:
        for row in csv.DictReader(file):
            groups[Path(row['file']).name] = row['group']
    found: Counter[str] = Counter()
    for copy, (original, kind) in planted.items():
        found[kind] += copy in groups and groups[copy] == groups.get(original)
    total = Counter(kind for _, kind in planted.values())
    rates = {kind: f'{found[kind]} of {count}' for kind, count in total.items()}
    near = sum(count for kind, count in found.items() if kind != 'exact')
    # a group of n images claims n - 1 copies; true are those that were planted into it
    claimed = len(groups) - len(set(groups.values()))
    return rates | {
        f'recall, of {COPIES} altered copies': f'{near / COPIES:.3f}',
        'precision, of the images to leave out': f'{found.total() / max(1, claimed):.3f}',
    }


def untrained(like: str | None, folder: Path) -> str:
    """A file with an untrained network of the kind of a checkpoint, or a ResNet-18."""
    from mmpretrain.models import ResNet

    torch.manual_seed(0)
    network = load_model(like, None, 'cpu')[0] if like else ResNet(18)
    for module in network.modules():
        if reset := getattr(module, 'reset_parameters', None):
            reset()
    path = folder / 'untrained.pth'
    torch.save({'state_dict': network.state_dict()}, path)
    return str(path)


def copies(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / 'images').mkdir()
        planted = plant(args.data, folder / 'images')
        first = untrained(next(iter(args.weights), None), folder)
        found = [
            measure(folder / 'images', planted, weights, args.size, folder / f'out{number}')
            for number, weights in enumerate([first, *args.weights])
        ]
    trained = ['trained'] if len(args.weights) == 1 else [Path(w).name for w in args.weights]
    rows = [[what, *(each[what] for each in found)] for what in found[0]]
    print(markdown(['copies found', 'untrained', *trained], rows))


def contenders(args: argparse.Namespace) -> Iterator[tuple[str, object]]:
    centers = torch.randn(1000, args.dim, generator=torch.Generator().manual_seed(0))
    rows, _ = features(args.rows, args.dim, centers, 1.0, seed=1)
    queries = rows[: args.queries]
    images = Centered(rows.numpy(), mean_of(rows.numpy()))
    some = Centered(queries.numpy(), images.mean)
    yield 'product', lambda: product(rows, queries, 8192, 4096)
    yield 'search', lambda: leaked_pairs(some, images, 0.9)


def million(args: argparse.Namespace) -> None:
    times: dict[str, list] = {'product': [], 'search': []}
    memory: dict[str, float] = {}
    both = dict(contenders(args))
    for _ in range(args.rounds):
        for name, run in both.items():
            before = peak_memory()
            times[name].append(seconds(run))
            memory.setdefault(name, peak_memory() - before)
    print(markdown(HEADER, cost_rows('the search', times, memory)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    some = parts.add_parser('copies')
    some.add_argument('--data', type=Path, required=True)
    some.add_argument('--weights', nargs='*', default=[])
    some.add_argument('--size', type=int, default=32, help='edge of the images (default: 32)')
    some.set_defaults(run=copies)
    many = parts.add_parser('million')
    many.add_argument('--rows', type=int, default=1_000_000)
    many.add_argument('--dim', type=int, default=256)
    many.add_argument('--queries', type=int, default=16_384)
    many.add_argument('--rounds', type=int, default=2)
    many.set_defaults(run=million)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
