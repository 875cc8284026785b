"""What tar shards cost: the index of a million images, and reading through it.

    python tools/benchmarks/bench_shards.py index [--images 1000000] [--shards 1000] [--tmp DIR]
    python tools/benchmarks/bench_shards.py read [--data DIR] [--images 1000] [--shards 200]

``index`` writes shards of small files into a temporary folder (1 kB per image) and opens them with
TarShards, each time in a new process. It exits with 1 if the first time takes 60 s of CPU time or
more, a later one 1 s or more, or the index more than 64 bytes of memory per image: all that is in
its files, as if every page of them had been touched, and what the list of names keeps.

``read`` makes two views of 224 pixels of each image, in a random order, from its file and from its
shard in turn, and exits with 1 if shards take more than 1.05 times as long. The median of the
ratios of all rounds counts. More shards than a process keeps open are the hard case.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import ROOT, markdown

OPEN = """
import json, resource, sys
from ttl_mm.datasets import TarShards

def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

before = cpu()
shards = TarShards(sys.argv[1])
print(json.dumps({
    'cpu': cpu() - before,
    'images': len(shards),
    'names_bytes': shards.names.nbytes,
}))
"""
SECONDS = {'index built, first time': 60.0, 'opened again': 1.0}
BYTES, RATIO = 64, 1.05


def make_shards(folder: Path, images: int, shards: int) -> None:
    """Equal shards of files with 100 to 500 bytes each, which are no images: only headers count."""
    from ttl_mm.files.archives.write_tar import write_tar

    each = images // shards
    first = folder / 'images-000000.tar'
    write_tar(first, ((f'{i:08}.jpg', bytes(100 + i % 400)) for i in range(each)))
    for number in range(1, shards):
        shutil.copyfile(first, folder / f'images-{number:06}.tar')


def open_shards(folder: Path, cache: Path) -> dict:
    """Build a dataset in a new process; what it took."""
    done = subprocess.run(
        [sys.executable, '-c', OPEN, str(folder)],
        env={**os.environ, 'XDG_CACHE_HOME': str(cache), 'PYTHONPATH': str(ROOT)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def bench_index(args: argparse.Namespace) -> bool:
    held, rows = True, []
    with tempfile.TemporaryDirectory(dir=args.tmp) as work:
        folder, cache = Path(work) / 'shards', Path(work) / 'cache'
        folder.mkdir()
        make_shards(folder, args.images, args.shards)
        for name, limit in SECONDS.items():
            found = open_shards(folder, cache)
            files = [path for kind in ('places', 'labels') for path in cache.rglob(f'*.{kind}')]
            places = sum(path.stat().st_size for path in files)
            memory = (places + found['names_bytes']) / found['images']
            held &= found['cpu'] < limit and memory <= BYTES
            rows.append([name, f'{found["cpu"]:.2f} s', f'{limit:g} s'])
    what = 'memory per image, if every page of the index is touched'
    rows.append([what, f'{memory:.1f} bytes', f'{BYTES} bytes'])
    print(markdown(['', 'CPU time', 'allowed'], rows))
    return held


def bench_read(args: argparse.Namespace) -> bool:
    import cv2
    import numpy as np
    import torch

    from tools.benchmarks.bench_data import generate
    from ttl_mm.datasets import ImageFolder
    from ttl_mm.datasets.sample_index import SampleIndex
    from ttl_mm.datasets.shard_writer import shard_files, write_shard
    from ttl_mm.files.archives.index import archive_index

    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=args.tmp) as work:
        os.environ['XDG_CACHE_HOME'] = str(Path(work) / 'cache')
        files, shards = Path(work) / 'files', Path(work) / 'shards'
        files.mkdir()
        shards.mkdir()
        if args.data is None:
            generate(files, args.images)
        else:
            found = sorted(args.data.rglob('*.[jJ][pP]*[gG]'))[: args.images]
            for i, path in enumerate(found):
                shutil.copyfile(path, files / f'{i:06}.jpg')
        names = sorted(path.name for path in files.iterdir())
        whole = list(shard_files(files, names))
        each = -(-len(names) // args.shards)
        for number, start in enumerate(range(0, len(names), each)):
            path = shards / f'{number:06}.tar'
            write_shard(path, whole[start : start + each])
            archive_index(path)
        pipeline = [{'type': 'ttl_mm.RandomViews', 'views': [{'size': 224}, {'size': 224}]}]
        sources = {'files': ImageFolder(str(files), pipeline)}
        sources['shards'] = ImageFolder(str(shards), pipeline)
        order = np.random.default_rng(0).permutation(len(names)).tolist()
        ratios, best = [], dict.fromkeys(sources, float('inf'))
        for round_ in range(args.rounds + 1):  # the first one warms up
            seconds = dict.fromkeys(sources, 0.0)
            turns = list(sources.items())
            for place, index in enumerate(order):  # in turn, so that other work disturbs both
                for name, source in turns if (round_ + place) % 2 else reversed(turns):
                    started = time.process_time()
                    source[SampleIndex(index)]
                    seconds[name] += time.process_time() - started
            if round_:
                ratios.append(seconds['shards'] / seconds['files'])
                best = {name: min(best[name], value) for name, value in seconds.items()}
    ratio = statistics.median(ratios)
    speeds = (f'{len(order) / value:.0f} images/s' for value in best.values())
    middle = f'{ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})'
    header = ['from files', f'from {args.shards} shards', 'time, median of the rounds', 'allowed']
    print(markdown(header, [[*speeds, middle, RATIO]]))
    return ratio <= RATIO


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['index', 'read'])
    parser.add_argument('--images', type=int)
    parser.add_argument('--shards', type=int)
    parser.add_argument('--data', type=Path, help='a folder of JPEGs; generated ones if left out')
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--tmp', help='where files are made')
    args = parser.parse_args()
    args.images = args.images or (1_000_000 if args.what == 'index' else 1000)
    args.shards = args.shards or (1000 if args.what == 'index' else 200)
    return 0 if {'index': bench_index, 'read': bench_read}[args.what](args) else 1


if __name__ == '__main__':
    sys.exit(main())
