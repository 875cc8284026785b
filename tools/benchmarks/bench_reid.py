"""Measure re-identification at the size of SYSU-30k: 30 million names, their sampler, retrieval.

``python tools/benchmarks/bench_reid.py [list] [sampler] [retrieval]`` prints the figures of
projects/sysu30k_reid/README.md. It needs 6 GB of disk space in ``--folder`` and 5 GB of memory.
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


def bench_list(folder: Path, count: int) -> None:
    path = folder / 'names.txt'
    names = (f'{i // 1000:010d}/{i // 1000:010d}_c{i % 7}_{i:08d}.jpg' for i in range(count))
    print(f'writing {count:,} names: {timed(lambda: write_name_list(path, names))[0]:.1f} s')
    before = memory()
    seconds, listed = timed(lambda: NameList(path))
    grown, text = memory() - before, path.stat().st_size
    print(f'list: {len(listed):,} names loaded in {seconds:.1f} s (at most 60)')
    print(
        f'list: {listed.nbytes / count:.3f} bytes of index per image, the process grew by '
        f'{grown / count:.2f}, with the file it is {(grown + text) / count:.1f} (at most 64)'
    )

    seconds, bags = timed(lambda: train_identities(listed))
    print(f'list: {len(bags):,} bags read from the names in {seconds:.1f} s')

    (folder / 'image.jpg').write_bytes(_jpeg())
    views = {'type': 'ttl_mm.RandomViews', 'views': [{'size': 224}, {'size': 224, 'blur': 0.1}]}
    pipeline = [OneImage(str(folder / 'image.jpg')), views]
    dataset = ImageFolder(str(folder), pipeline, list_file=str(path))
    order = iter(EpochSampler(dataset, seed=0))
    print(f'list: first sample after {timed(lambda: dataset[next(order)])[0]:.3f} s (at most 1)')
    loader = DataLoader(dataset, 1, sampler=order, num_workers=4, collate_fn=list)
    print(f'list: first one of 4 workers {timed(lambda: next(iter(loader)))[0]:.3f} s (at most 1)')

    dataset = ImageFolder(str(folder), [SampleMemory()], list_file=str(path))
    sampler = EpochSampler(dataset, seed=0)
    batches = DataLoader(dataset, 1000, sampler=sampler, num_workers=4, collate_fn=list)
    seen: dict[int, list[int]] = {}
    for _, batch in zip(range(400), batches):
        for pid, size in batch:
            if size:
                seen.setdefault(pid, []).append(size)
    for number, sizes in enumerate(seen.values()):
        growth = 100 * (max(sizes) / sizes[0] - 1)
        print(
            f'list: worker {number} {sizes[0] / 1e6:.0f} MB at its first name, '
            f'{max(sizes) / 1e6:.0f} MB after {400_000 // 4:,}: {growth:+.1f} % (at most 10)'
        )
    path.unlink()


def _jpeg() -> bytes:
    import cv2

    return cv2.imencode('.jpg', draw_person(1, 1, 0))[1].tobytes()


# --- the sampler -------------------------------------------------------------------------------


def bench_sampler(count: int) -> None:
    before = memory()
    sampler = EpochSampler(range(count), seed=0)
    first, _ = timed(lambda: next(iter(sampler)))

    def resume() -> int:
        sampler.set_epoch(3)
        return len(sampler.at(np.arange(count - 1000, count)))

    sought, rest = timed(resume)
    print(
        f'sampler: first index of {count:,} after {first * 1e3:.1f} ms, the last {rest} of epoch 3 '
        f'after {sought * 1e3:.1f} ms, {(memory() - before) / 1e6:.1f} MB (at most 1000)'
    )


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
) -> None:
    path = folder / 'features.npy'
    query, features, ids = make_features(path, queries, gallery, dim)
    size = features.nbytes / GB
    print(f'retrieval: {queries:,} x {gallery:,} x {dim:,}, {size:.1f} GB of features')
    buffer = torch.empty(queries, gallery)
    mapped = torch.from_numpy(np.load(path, mmap_mode='c'))  # copy on write: no warning
    one, two = np.full(gallery, 1), np.full(queries, 2)

    def product() -> None:
        torch.mm(torch.from_numpy(query), mapped.T, out=buffer)

    def retrieve() -> dict:
        ours = query, np.arange(queries), two
        return evaluate_retrieval(*ours, features, ids, one, score_bytes=score_bytes)

    times: dict[str, list[tuple[float, float]]] = {'product': [], 'retrieval': []}
    for _ in range(rounds):
        for name, run in (('product', product), ('retrieval', retrieve)):
            cpu = time.process_time()
            with Peak() as peak:
                wall, result = timed(run)
            times[name].append((wall, time.process_time() - cpu))
            print(
                f'{name:10s} {wall:7.2f} s, {times[name][-1][1]:7.2f} s of CPU, '
                f'{peak.extra / GB:.3f} GB over the features',
                flush=True,
            )
    best = {name: np.min(each, axis=0) for name, each in times.items()}
    wall, cpu = best['retrieval'] / best['product']
    print(f'retrieval / product: {wall:.3f} by the clock, {cpu:.3f} by CPU time (at most 1.3)')
    print({name: round(value, 2) for name, value in result.items()})
    path.unlink()


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
    print(f'{torch.get_num_threads()} threads, torch {torch.__version__}, {sys.platform}')
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if 'list' in args.what:
            bench_list(Path(folder), args.names)
        if 'sampler' in args.what:
            bench_sampler(args.names)
        if 'retrieval' in args.what:
            sizes = args.queries, args.gallery, args.dim
            bench_retrieval(Path(folder), *sizes, args.rounds, args.score_bytes)


if __name__ == '__main__':
    main()
