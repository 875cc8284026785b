"""kNN of networks of three kinds, before and after a short ``ttl train``: ``python FILE FOLDER``.

FOLDER has the splits ``train`` and ``val``, each with a folder per class. The images of ``train``
are trained on without their labels; kNN is that of the probe: neighbors in ``train``, tested on
``val``. A network passes if kNN has risen by more than the standard error of both figures. How many
steps a time has room for depends on what else the machine does. Each of ``--epochs`` gives a row.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

import ttl_mm.registry  # noqa: F401  isort: skip

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.pretraining import pretrain

NETWORKS = ('resnet18', 'timm/convnext_atto', 'timm/vit_tiny_patch16_224')


def standard_error(before: float, after: float, count: int) -> float:
    """Of the difference of two accuracies in percent, each of ``count`` images."""
    return math.sqrt(sum(p * (100 - p) for p in (before, after)) / count)


def measure(folder: Path, network: str, size: int, length: dict) -> list:
    """A row of the table."""
    tested = sum(path.is_file() for path in (folder / 'val').rglob('*'))
    with tempfile.TemporaryDirectory() as out:
        run = pretrain(
            folder / 'train', Path(out) / 'run', backbone=network, size=size, labels=folder,
            say=lambda text: None, **length,
        )  # fmt: skip
        history = run.history
    found = [row['probe/knn_top1'] for row in history if 'probe/knn_top1' in row]
    steps = max(row['iter'] for row in history if 'iter' in row)
    before, after = found[0], found[-1]
    error = standard_error(before, after, tested)
    verdict = 'rises' if after - before > error else 'does not rise'
    return [network, steps, *(f'{value:.1f}' for value in (before, after, error)), verdict]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument('--minutes', type=float, help='of each network, planning included')
    parser.add_argument('--epochs', type=int, nargs='+', help='instead of minutes')
    parser.add_argument('--networks', nargs='+', default=NETWORKS)
    args = parser.parse_args()
    lengths = [{'epochs': n} for n in args.epochs or []] or [{'hours': (args.minutes or 5) / 60}]
    rows = [
        measure(args.folder, network, args.size, length)
        for network in args.networks for length in lengths
    ]  # fmt: skip
    header = ['network', 'steps', 'kNN before', 'after', 'standard error of the difference', '']
    print(markdown(header, rows))


if __name__ == '__main__':
    main()
