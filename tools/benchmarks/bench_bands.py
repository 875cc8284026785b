"""Do images beyond 8-bit RGB cost 8-bit RGB anything? And what do they cost themselves?

    python tools/benchmarks/bench_bands.py --data DIR --before TREE [--images 96] [--rounds 9]

TREE is a checkout of an earlier version. Both versions make two views of 224 pixels of the same
JPEGs, in processes that take turns, and a digest of all views is compared. Exits with 1 if the
views differ in any bit, or if the median of the ratios of the rounds is above 1.02.

Without ``--before`` it prints what the same images cost as 8-bit RGB, as 16-bit RGB and with
eight channels of 16 bit, without compression.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import ROOT, markdown

LIMIT = 1.02
VIEWS = """
import hashlib, json, sys, time
import cv2, torch
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex

cv2.setNumThreads(0)
torch.set_num_threads(1)
images, count, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
views = [dict(size=224), dict(size=224, blur=0.1, solarize=0.2)]
folder = ImageFolder(images, [dict(type='ttl_mm.RandomViews', views=views, **options)])
step = max(1, len(folder) // count)
indices = [SampleIndex(i, 1, 5) for i in range(0, len(folder), step)][:count]
digest = hashlib.sha256()
for index in indices:
    for view in folder[index]['img']:
        digest.update(view.contiguous().numpy().tobytes())
print(digest.hexdigest(), flush=True)
for line in sys.stdin:
    begun = time.process_time()
    for index in indices:
        folder[index]
    print(time.process_time() - begun, flush=True)
"""


class Contender:
    """A process that makes the views of all images whenever it is asked to."""

    def __init__(self, tree: Path, images: Path, count: int, options: dict | None = None) -> None:
        command = [sys.executable, '-c', VIEWS, str(images), str(count), json.dumps(options or {})]
        self.process = subprocess.Popen(
            command, env={**os.environ, 'PYTHONPATH': str(tree), 'OMP_NUM_THREADS': '1'}, cwd=tree,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.digest = self._line()
        while len(self.digest) != 64:  # lines of the log
            self.digest = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit('a contender has ended')
        return line.strip()

    def seconds(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write('\n')
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def against_before(args: argparse.Namespace) -> bool:
    before, now = (Contender(tree, args.data, args.images) for tree in (args.before, ROOT))
    print('the views are', 'the same' if before.digest == now.digest else 'NOT the same')
    ratios = []
    for number in range(args.rounds):
        turns = [before, now] if number % 2 else [now, before]
        taken = {turn: turn.seconds() for turn in turns}
        ratios.append(taken[now] / taken[before])
    for contender in (before, now):
        contender.close()
    ratio = statistics.median(ratios)
    shown = ', '.join(f'{value:.3f}' for value in sorted(ratios))
    print(f'8-bit RGB takes {ratio:.3f} times as long as before (at most {LIMIT}); rounds: {shown}')
    return before.digest == now.digest and ratio <= LIMIT


def costs(args: argparse.Namespace) -> None:
    import numpy as np
    import tifffile

    from ttl_mm.datasets import ImageFolder, decode_image

    with tempfile.TemporaryDirectory() as work:
        folder = ImageFolder(str(args.data))
        step = max(1, len(folder) // args.images)
        for i, index in enumerate(range(0, len(folder), step)[: args.images]):
            image = decode_image(folder.get_data_info(index)['img_path'])[:, :, ::-1]
            deep = image.astype(np.uint16) * 257
            kinds = {'8-bit RGB': image, '16-bit RGB': deep, '8 channels of 16 bit': np.dstack(
                [deep, deep, deep[:, :, :2]])}  # fmt: skip
            for name, pixels in kinds.items():
                path = Path(work) / name.replace(' ', '_') / f'{i}.tif'
                path.parent.mkdir(exist_ok=True)
                kind = 'rgb' if pixels.shape[2] == 3 else 'minisblack'
                tifffile.imwrite(path, pixels, photometric=kind, planarconfig='contig')
        times = []
        for name, pixels in kinds.items():
            channels = pixels.shape[2]
            bands = {'bands': {'low': [0] * channels, 'high': [65535] * channels}}
            options = bands if pixels.dtype == np.uint16 else {}
            path = Path(work) / name.replace(' ', '_')
            contender = Contender(ROOT, path, args.images, options)
            best = min(contender.seconds() for _ in range(args.rounds))
            contender.close()
            times.append(best)
    speeds = (f'{args.images / best:.0f} images/s' for best in times)
    ratios = (f'{best / times[0]:.1f}x as long' for best in times[1:])
    print(markdown(list(kinds), [speeds, ['', *ratios]]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', type=Path, required=True, help='a folder of JPEGs')
    parser.add_argument('--before', type=Path, help='a checkout of an earlier version')
    parser.add_argument('--images', type=int, default=96)
    parser.add_argument('--rounds', type=int, default=9)
    args = parser.parse_args()
    args.data = args.data.resolve()
    if args.before is not None:
        args.before = args.before.resolve()
        return 0 if against_before(args) else 1
    costs(args)
    return 0


if __name__ == '__main__':
    sys.exit(main())
