"""What the guards cost: a ResNet-50 checkpoint and 1,000 images, read with them and without.

    python tools/benchmarks/bench_safe_files.py [--rounds 20] [--images DIR]

Both ways run in one process and take turns, so that a busy machine slows both. "Without" is what
was there before: ``torch.load(weights_only=True)`` with a check of the archive, and a JPEG whose
header Pillow reads. The figure is the ratio of the sums of the fastest halves of all rounds.
"""

import argparse
import io
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import ttl_mm.registry  # noqa: F401  isort: skip
import cv2
import numpy as np
import torch
from mmpretrain.models import ResNet
from PIL.JpegImagePlugin import JpegImageFile

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.datasets.decode import decode_image, exif_orientation

ALLOWED = 1.02


def main() -> None:
    """Print a table with the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--images', type=Path, help='a folder of JPEG files (default: made here)')
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / 'r50.pth'
        torch.save({'state_dict': ResNet(50).state_dict(), 'meta': {'epoch': 1}}, checkpoint)
        ways = (lambda: read_checkpoint(checkpoint)), (lambda: _load_before(checkpoint))
        size = checkpoint.stat().st_size / 1e6
        what = f'read a ResNet-50 checkpoint, {size:.0f} MB'
        rows = [_row(what, ways, args.rounds)]
        images = (
            sorted(args.images.rglob('*.[jJ][pP]*'))[:1000] if args.images else _make(Path(folder))
        )
        images = [images[i % len(images)] for i in range(1000)]
        ways = (
            (lambda: [decode_image(p) for p in images]),
            (lambda: [_decode_before(p) for p in images]),
        )
        rows.append(_row('decode 1,000 images', ways, max(4, args.rounds // 4)))
    print(markdown(['what', 'with the guards', 'without', 'ratio', 'allowed'], rows))


def _row(what: str, ways: tuple[Callable, Callable], rounds: int) -> list:
    for way in ways:
        way()  # files are in the page cache from here on
    seconds: tuple[list[float], list[float]] = [], []
    for i in range(rounds):
        for j in (0, 1) if i % 2 else (1, 0):
            started = time.process_time()
            ways[j]()
            seconds[j].append(time.process_time() - started)
    kept = [sum(sorted(times)[: -(-rounds // 2)]) / -(-rounds // 2) for times in seconds]
    times = (f'{one:.3f} s' for one in kept)
    return [what, *times, f'{kept[0] / kept[1]:.3f}', ALLOWED]


def _load_before(path: Path) -> object:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    assert sum(entry.file_size for entry in entries) <= path.stat().st_size
    return torch.load(path, map_location='cpu', weights_only=True)


def _decode_before(path: Path) -> np.ndarray:
    with open(path, 'rb') as file:
        os.fstat(file.fileno())
        data = file.read()
    stream = io.BytesIO(data)
    header = JpegImageFile(stream)
    assert header.width * header.height <= 2**26
    assert data.rfind(b'\xff\xd9', stream.tell()) >= 0
    assert exif_orientation(header.info.get('exif', b'')) in range(1, 9)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags)


def _make(folder: Path, count: int = 50) -> list[Path]:
    """JPEGs of 500 x 375 with the spectrum of photographs, about 50 kB each."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(count):
        layers = [
            cv2.resize(rng.normal(0, 60 / k, (4 * k, 5 * k, 3)), (500, 375)) for k in (1, 4, 16, 64)
        ]
        image = np.clip(sum(layers) + 128, 0, 255).astype(np.uint8)
        paths.append(folder / f'{i}.jpg')
        cv2.imwrite(str(paths[-1]), image, [cv2.IMWRITE_JPEG_QUALITY, 90])
    return paths


if __name__ == '__main__':
    main()
