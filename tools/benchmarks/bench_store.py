"""Does a run wait for its images when they come from a slow store? Trains, and reads its log.

    python tools/benchmarks/bench_store.py [--seconds 130] [--images 3000] [--cache 0.35]

A web server in a process of its own sends tar shards of JPEGs (375 x 500 pixels) over loopback, at
50 MB/s in all and 20 ms late. A ResNet-18 is pre-trained from its address for so many seconds, two
views of 64 pixels, with a cache that holds only a part of the shards: with the next window fetched
ahead, without that, and from the disk. On a CPU the network, not the store, sets the pace, so the
three hardly differ.

Prints the share of time that steps waited for data, in the first minute and after it, from the log
of the run. Exits with 1 if it is 5 % or more after the first minute from the store.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import ROOT, markdown

RATE, LATENCY, CHUNK = 50e6, 0.02, 2**16
SHARE = 0.05
BATCH = 32
KINDS = {'ahead': 'from the store', 'alone': 'the same, nothing fetched ahead', 'disk': 'from disk'}
DIFFERENT = 250  # images that are made; the others are copies of them
CONFIG = """
_base_ = ['{root}/configs/_base_/models/ttl_r50.py', '{root}/configs/_base_/default_runtime.py']
model = dict(
    target_momentum=None, online_sizes=None, target_sizes=None,
    backbone=dict(type='ResNet', depth=18), neck=dict(in_channels=512, hid_channels=512),
    head=dict(predictor=None))
train_dataloader = dict(
    batch_size={batch}, num_workers=1, persistent_workers=True, drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'), collate_fn=dict(type='default_collate'),
    dataset=dict(type='ttl_mm.ImageFolder', data_root={source!r}, pipeline=[
        dict(type='ttl_mm.RandomViews', views=[dict(size=64), dict(size=64)]),
        dict(type='PackInputs')]))
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.02, momentum=0.9))
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=1000)
default_hooks = dict(logger=dict(interval=10))
"""
RUN = """
import sys
from ttl_mm.engine.runner.launch import train
from ttl_mm.files.stores.prefetch import Prefetcher
if sys.argv[3] == 'alone':
    Prefetcher.want = lambda self, groups: None
train(sys.argv[1], sys.argv[2], plain=True)
"""


class Throttle:
    """Lets so many bytes a second pass, of all who ask."""

    def __init__(self, rate: float) -> None:
        self.rate, self.lock, self.free = rate, threading.Lock(), 0.0

    def wait_for(self, size: int) -> None:
        with self.lock:
            self.free = max(self.free, time.monotonic()) + size / self.rate
            until = self.free
        time.sleep(max(0.0, until - time.monotonic()))


def serve(folder: str, rate: float, latency: float) -> None:
    """Serve a folder until this process is ended; prints the port."""
    throttle = Throttle(rate)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args) -> None:
            super().__init__(*args, directory=folder)

        def send_head(self):
            time.sleep(latency)
            return super().send_head()

        def copyfile(self, source, outputfile) -> None:
            while chunk := source.read(CHUNK):
                throttle.wait_for(len(chunk))
                outputfile.write(chunk)

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def make_shards(folder: Path, images: int, shards: int) -> int:
    """Shards of equally many JPEGs; their bytes."""
    from tools.benchmarks.bench_data import generate
    from ttl_mm.files.archives.write_tar import write_tar

    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        contents = [path.read_bytes() for path in generate(Path(work), min(images, DIFFERENT))]
    each = images // shards
    for shard in range(shards):
        numbers = range(shard * each, (shard + 1) * each)
        files = ((f'{i:06}.jpg', contents[i % len(contents)]) for i in numbers)
        write_tar(folder / f'images-{shard:06}.tar', files)
    return sum(path.stat().st_size for path in folder.iterdir())


def waited(work_dir: Path) -> list[tuple[float, float]]:
    """Of each line of the log: seconds since the first step, seconds of waiting for data."""
    records = []
    for path in work_dir.glob('*/vis_data/scalars.json'):
        records += [json.loads(line) for line in path.read_text().splitlines()]
    steps = [record for record in records if 'data_time' in record]
    rows, clock, before = [], 0.0, 0
    for record in steps:  # its times are means over the steps since the line before
        count, before = record['iter'] - before, record['iter']
        clock += count * record['time']
        rows.append((clock, count * record['data_time'], count * record['time']))
    return rows


def share(rows: list, first: float, last: float) -> float:
    found = [(wait, total) for clock, wait, total in rows if first < clock <= last]
    return sum(w for w, _ in found) / sum(t for _, t in found) if found else float('nan')


def train(source: str, work: Path, name: str, args: argparse.Namespace, cache: int) -> list:
    """Train for a while in a process of its own; the rows of its log."""
    environment = {
        **os.environ, 'PYTHONPATH': str(ROOT), 'TTL_STORE_CACHE': str(work / 'cache'),
        'TTL_STORE_CACHE_SIZE': f'{cache / 1e6:.1f}MB', 'XDG_CACHE_HOME': str(work / 'home'),
    }  # fmt: skip
    config = work / f'{name}.py'
    config.write_text(CONFIG.format(root=str(ROOT), source=source, batch=BATCH))
    with (work / f'{name}.log').open('w') as log:
        command = [sys.executable, '-c', RUN, str(config), str(work / name), name]
        run = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            run.wait(args.seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGTERM)  # it saves and ends
            run.wait()
    rows = waited(work / name)
    if not rows or rows[-1][0] < 60:
        sys.exit((work / f'{name}.log').read_text()[-3000:])
    return rows


def bench(args: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(dir=args.tmp) as name:
        work = Path(name)
        (work / 'shards').mkdir()
        size = make_shards(work / 'shards', args.images, args.shards)
        cache = int(args.cache * size)
        command = [sys.executable, __file__, 'serve', str(work / 'shards')]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = f'http://127.0.0.1:{server.stdout.readline().strip()}'
            try:
                held, table = True, []
                for kind in args.kinds.split(','):
                    shutil.rmtree(work / 'cache', ignore_errors=True)
                    source = str(work / 'shards') if kind == 'disk' else url
                    rows = train(source, work, kind, args, cache)
                    first, later = share(rows, 0, 60), share(rows, 60, 1e9)
                    rate = 10 * BATCH * len(rows) / rows[-1][0]
                    table.append([KINDS[kind], f'{first:.1%}', f'{later:.1%}', f'{rate:.0f}'])
                    if kind == 'ahead':
                        held = later < SHARE
            finally:
                server.kill()
    print(f'{size / 1e6:.0f} MB in {args.shards} shards, a cache of {cache / 1e6:.0f} MB; at most '
          f'{SHARE:.0%} may be waited for after the first minute:\n')  # fmt: skip
    header = ['shards', 'waited, share of the first minute', 'after it', 'images/s']
    print(markdown(header, table))
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', nargs='*', help=argparse.SUPPRESS)
    parser.add_argument('--seconds', type=float, default=130, help='of each run, with its start')
    parser.add_argument('--images', type=int, default=3000)
    parser.add_argument('--shards', type=int, default=30)
    parser.add_argument('--cache', type=float, default=0.35, help='share of the shards it holds')
    parser.add_argument('--kinds', default='ahead,alone,disk', help='which runs')
    parser.add_argument('--tmp', help='where files are made')
    args = parser.parse_args()
    if args.what:
        serve(args.what[1], RATE, LATENCY)
        return 0
    return 0 if bench(args) else 1


if __name__ == '__main__':
    sys.exit(main())
