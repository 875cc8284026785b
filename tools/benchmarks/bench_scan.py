"""How long does ImageFolder take to find a million files, the first time and again?

    python tools/benchmarks/bench_scan.py [--files 1000000] [--folders 1000] [--tmp DIR]

The tree of hard links is made in a temporary folder below DIR and removed afterwards. Every scan
is a process of its own; its memory is the peak over what it had after the imports. Exits with 1
if the first scan takes 60 s or more, a later one 3 s or more, or any of them 1 GB or more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCAN = """
import json, resource, sys, time
from ttl_mm.datasets import ImageFolder

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before, started = peak(), time.perf_counter()
folder = ImageFolder(sys.argv[1], with_label=sys.argv[2] == 'labels')
print(json.dumps({
    'seconds': time.perf_counter() - started,
    'megabytes': peak() - before,
    'images': len(folder),
}))
"""
SECONDS = {'first scan': 60.0, 'scan again': 3.0, 'scan again, labels': 3.0}
MEGABYTES = 1000
LINKS = 1000  # file systems limit them


def make_tree(root: Path, files: int, folders: int) -> None:
    """``files`` names in ``folders`` folders; a thousand of them are one file on the disk."""
    for number in range(folders):
        (root / f'n{number:08}').mkdir()
    for i in range(files):
        name = f'{root}/n{i % folders:08}/{i:08}.JPEG'
        if i % LINKS == 0:
            Path(name).touch()
            source = name
        else:
            os.link(source, name)


def scan(root: Path, cache: Path, labels: bool) -> dict:
    """Build an ImageFolder in a new process; what it took."""
    done = subprocess.run(
        [sys.executable, '-c', SCAN, str(root), 'labels' if labels else ''],
        env={**os.environ, 'XDG_CACHE_HOME': str(cache), 'PYTHONPATH': str(ROOT)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    *progress, last = done.stdout.splitlines()
    print(*(f'    {line}' for line in progress), sep='\n')
    return json.loads(last)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--files', type=int, default=1_000_000)
    parser.add_argument('--folders', type=int, default=1000)
    parser.add_argument('--tmp', help='where the tree is made')
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(dir=args.tmp) as work:
        root, cache = Path(work) / 'images', Path(work) / 'cache'
        root.mkdir()
        started = time.perf_counter()
        make_tree(root, args.files, args.folders)
        print(f'{args.files:,} files in {args.folders:,} folders made in '
              f'{time.perf_counter() - started:.0f} s')  # fmt: skip
        for name, limit in SECONDS.items():
            found = scan(root, cache, labels='labels' in name)
            print('{:<20}{images:>12,} images{seconds:>8.2f} s{megabytes:>8.0f} MB'.format(
                name, **found), flush=True)  # fmt: skip
            failed |= found['images'] != args.files
            failed |= found['seconds'] >= limit or found['megabytes'] >= MEGABYTES
    return int(failed)


if __name__ == '__main__':
    sys.exit(main())
