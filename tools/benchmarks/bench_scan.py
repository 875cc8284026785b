"""How long does ImageFolder take to find a million files, the first time and again?

    python tools/benchmarks/bench_scan.py [--files 1000000] [--folders 1000 1] [--tmp DIR]

A tree of hard links is made in a temporary folder below DIR and removed afterwards. Every scan
is a process of its own; its memory is the peak over what it had after the imports. Exits with 1
if the first scan takes 60 s of CPU time or more, a later one 3 s or more, or any 1 GB or more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import ROOT, markdown

SCAN = """
import json, resource, sys, time
from ttl_mm.datasets import ImageFolder

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before, started = peak(), time.process_time()
folder = ImageFolder(sys.argv[1], with_label=sys.argv[2] == 'labels')
print(json.dumps({
    'seconds': time.process_time() - started,
    'megabytes': peak() - before,
    'images': len(folder),
}))
"""
SECONDS = {'first scan': 60.0, 'again': 3.0, 'again, with labels': 3.0}
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
    print(*progress, sep='\n', file=sys.stderr)
    return json.loads(last)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--files', type=int, default=1_000_000)
    parser.add_argument('--folders', type=int, nargs='+', default=[1000, 1])
    parser.add_argument('--tmp', help='where the tree is made')
    args = parser.parse_args()
    rows, failed = [], False
    for folders in args.folders:
        with tempfile.TemporaryDirectory(dir=args.tmp) as work:
            root, cache = Path(work) / 'images', Path(work) / 'cache'
            root.mkdir()
            make_tree(root, args.files, folders)
            found = {name: scan(root, cache, labels='labels' in name) for name in SECONDS}
        megabytes = max(one['megabytes'] for one in found.values())
        failed |= megabytes >= MEGABYTES
        for name, one in found.items():
            failed |= one['images'] != args.files or one['seconds'] >= SECONDS[name]
        where = f'{folders:,} folders' if folders > 1 else 'one folder'
        times = (f'{one["seconds"]:.1f} s' for one in found.values())
        rows.append([f'{args.files:,} in {where}', *times, f'{megabytes:.0f} MB'])
    print(markdown(['files', *SECONDS, 'most memory beyond the imports'], rows))
    return int(failed)


if __name__ == '__main__':
    sys.exit(main())
