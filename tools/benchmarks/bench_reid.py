"""Measure re-identification at the size of SYSU-30k: 30 million names, their sampler, retrieval.

``python tools/benchmarks/bench_reid.py [list] [sampler] [retrieval]`` prints a table. It needs 6 GB
of disk space in ``--folder`` and 5 GB of memory.
Times to be compared are the fastest of alternating rounds.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.datasets import EpochSampler, ImageFolder
from ttl_mm.datasets.name_list import NameList, write_name_list
from ttl_mm.evaluation import evaluate_retrieval
from ttl_mm.evaluation.retrieval import SCORE_BYTES
from ttl_mm.tasks.reid.names import train_identities
from ttl_mm.tasks.reid.synthetic import draw_person

GB = 1e9


def memory(field: str = 'VmRSS') -> int:
    """Bytes of a field of /proc/self/status: VmRSS, or RssAnon (without mapped files)."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field + ':'):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def timed(function) -> tuple[float, object]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


# --- the list of names -------------------------------------------------------------------------


class SampleMemory:
    """A pipeline that reads no image and returns the memory of the worker."""

    def __call__(self, results: dict) -> tuple[int, int]:
        return os.getpid(), memory() if results['sample_idx'] % 100 == 0 else 0


class OneImage:
    """A first step that always names the same file, in place of 30 million different ones."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, results: dict) -> dict:
        return {**results, 'img_path': self.path}


def bench_list(folder: Path, count: int) -> list[list[str]]:
    path = folder / 'names.txt'
    names = (f'{i // 1000:010d}/{i // 1000:010d}_c{i % 7}_{i:08d}.jpg' for i in range(count))
    write_name_list(path, names)
    before = memory()
    seconds, listed = timed(lambda: NameList(path))
    grown, text = memory() - before, path.stat().st_size
    memory_each = f'{grown / count:.1f} / {(grown + text) / count:.1f} bytes'
    rows = [
        [f'{len(listed):,} names: load', f'{seconds:.1f} s', '60 s'],
        ['... memory per image, of the process / with the list file', memory_each, '64 bytes'],
    ]
    seconds, bags = timed(lambda: train_identities(listed))
    rows.append(
        [f'... identities of all {len(bags):,} bags from the names', f'{seconds:.0f} s', '']
    )

    (folder / 'image.jpg').write_bytes(_jpeg())
    views = {'type': 'ttl_mm.RandomViews', 'views': [{'size': 224}, {'size': 224, 'blur': 0.1}]}
    pipeline = [OneImage(str(folder / 'image.jpg')), views]
    dataset = ImageFolder(str(folder), pipeline, list_file=str(path))
    order = iter(EpochSampler(dataset, seed=0))
    first = timed(lambda: dataset[next(order)])[0]
    loader = DataLoader(dataset, 1, sampler=order, num_workers=4, collate_fn=list)
    of_workers = timed(lambda: next(iter(loader)))[0]
    what = '... first sample (two views of 224 pixels) after that / of 4 new workers'
    rows.append([what, f'{first:.2f} / {of_workers:.1f} s', '1 s'])

    dataset = ImageFolder(str(folder), [SampleMemory()], list_file=str(path))
    sampler = EpochSampler(dataset, seed=0)
    batches = DataLoader(dataset, 1000, sampler=sampler, num_workers=4, collate_fn=list)
    seen: dict[int, list[int]] = {}
    for _, batch in zip(range(400), batches):
        for pid, size in batch:
            if size:
                seen.setdefault(pid, []).append(size)
    growth = max(100 * (max(sizes) / sizes[0] - 1) for sizes in seen.values())
    what = f'... resident memory of a worker after {400_000 // len(seen):,} names, the most of 4'
    path.unlink()
    return [*rows, [what, f'{growth:+.1f} %', '+10 %']]


def _jpeg() -> bytes:
    import cv2

    return cv2.imencode('.jpg', draw_person(1, 1, 0))[1].tobytes()


# --- the sampler -------------------------------------------------------------------------------


def bench_sampler(count: int) -> list[list[str]]:
    before = memory()
    sampler = EpochSampler(range(count), seed=0)
    first, _ = timed(lambda: next(iter(sampler)))

    def resume() -> int:
        sampler.set_epoch(3)
        return len(sampler.at(np.arange(count - 1000, count)))

    sought, rest = timed(resume)
    what = f'sampler: first index / last {rest:,} indices of an epoch, sought'
    return [
        [what, f'{first * 1e3:.0f} / {sought * 1e3:.0f} ms', 'seconds'],
        ['... memory', f'{(memory() - before) / 1e6:.0f} MB', '1 GB'],
    ]


# --- retrieval ---------------------------------------------------------------------------------


class Peak:
    """The most anonymous memory (not the mapped features) while the block runs."""

    def __enter__(self) -> 'Peak':
        self.start = self.most = memory('RssAnon')
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.done.wait(0.02):
            self.most = max(self.most, memory('RssAnon'))

    def __exit__(self, *_) -> None:
        self.done.set()
        self.thread.join()
        self.extra = self.most - self.start


def make_features(path: Path, queries: int, gallery: int, dim: int):
    """Query features, and a memory map of unit gallery features with one noisy match for each."""
    rng = np.random.default_rng(0)
    query = rng.standard_normal((queries, dim), dtype=np.float32)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    places = rng.choice(gallery, queries, replace=False)
    features = np.lib.format.open_memmap(path, 'w+', np.float32, (gallery, dim))
    for start in range(0, gallery, 8192):
        chunk = rng.standard_normal((min(8192, gallery - start), dim), dtype=np.float32)
        features[start : start + 8192] = chunk / np.linalg.norm(chunk, axis=1, keepdims=True)
    noise = rng.standard_normal((queries, dim), dtype=np.float32) * (12 / dim**0.5)
    match = query + noise
    features[places] = match / np.linalg.norm(match, axis=1, keepdims=True)
    features.flush()
    ids = np.full(gallery, -1000)
    ids[places] = np.arange(queries)
    return query, np.load(path, mmap_mode='r'), ids


def bench_retrieval(
    folder: Path, queries: int, gallery: int, dim: int, rounds: int, score_bytes: int
) -> list[list[str]]:
    path = folder / 'features.npy'
    query, features, ids = make_features(path, queries, gallery, dim)
    buffer = torch.empty(queries, gallery)
    mapped = torch.from_numpy(np.load(path, mmap_mode='c'))  # copy on write: no warning
    one, two = np.full(gallery, 1), np.full(queries, 2)

    def product() -> None:
        torch.mm(torch.from_numpy(query), mapped.T, out=buffer)

    def retrieve() -> dict:
        ours = query, np.arange(queries), two
        return evaluate_retrieval(*ours, features, ids, one, score_bytes=score_bytes)

    extra = 0
    times: dict[str, list[tuple[float, float]]] = {'product': [], 'retrieval': []}
    for _ in range(rounds):
        for name, run in (('product', product), ('retrieval', retrieve)):
            cpu = time.process_time()
            with Peak() as peak:
                wall, _ = timed(run)
            times[name].append((wall, time.process_time() - cpu))
            extra = max(extra, peak.extra if name == 'retrieval' else 0)
    best = {name: np.min(each, axis=0) for name, each in times.items()}
    wall, cpu = best['retrieval'] / best['product']
    path.unlink()
    size = f'{queries:,} queries in {gallery:,} x {dim:,} features'
    what = f'retrieval of {size}, against the matrix product alone'
    return [
        [what, f'{wall:.2f} (CPU time {cpu:.2f})', '1.3'],
        ['... memory over the features', f'{extra / GB:.3f} GB', '1 GB'],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', nargs='*', default=['list', 'sampler', 'retrieval'])
    parser.add_argument('--folder', help='for the files; a temporary one by default')
    parser.add_argument('--names', type=int, default=30_000_000)
    parser.add_argument('--queries', type=int, default=1_000)
    parser.add_argument('--gallery', type=int, default=480_000)
    parser.add_argument('--dim', type=int, default=2_048)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--score-bytes', type=int, default=SCORE_BYTES, help='memory for scores')
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if 'list' in args.what:
            rows += bench_list(Path(folder), args.names)
        if 'sampler' in args.what:
            rows += bench_sampler(args.names)
        if 'retrieval' in args.what:
            sizes = args.queries, args.gallery, args.dim
            rows += bench_retrieval(Path(folder), *sizes, args.rounds, args.score_bytes)
    print(markdown(['what', 'found', 'allowed'], rows))


if __name__ == '__main__':
    main()
