"""Seed one sample.

Transforms of ours draw from ``results['rng']``. Those of other packages draw from the global
generators of Python, NumPy and torch, whose state depends on the worker and on what it did before.
Setting both for every sample makes any pipeline a function of (seed, epoch, sample index).
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from mmengine.dataset import Compose
from torch.utils.data import Dataset, get_worker_info

from ttl_mm.datasets.sample_index import SampleIndex

_current: SampleIndex | None = None


@contextmanager
def seeded_for(index: SampleIndex) -> Iterator[None]:
    """Seed all global CPU generators for ``index``; the main process gets its own state back."""
    global _current
    words = np.random.SeedSequence((index.seed, index.epoch, int(index), 1)).generate_state(3)
    in_main_process = get_worker_info() is None
    if in_main_process:
        before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))
    torch.random.default_generator.manual_seed(int(words[2]))
    _current = index
    try:
        yield
    finally:
        _current = None
        if in_main_process:
            random.setstate(before[0])
            np.random.set_state(before[1])
            torch.random.set_rng_state(before[2])


def provide_rng(dataset: Dataset) -> None:
    """Let the pipelines of a dataset, and of those it wraps, begin with ``results['rng']``."""
    pipeline = getattr(dataset, 'pipeline', None)
    if isinstance(pipeline, Compose) and _add_rng not in pipeline.transforms:
        pipeline.transforms.insert(0, _add_rng)
    for inner in [getattr(dataset, 'dataset', None), *getattr(dataset, 'datasets', [])]:
        if inner is not None:
            provide_rng(inner)


def _add_rng(results: dict) -> dict:
    if _current is not None:
        results['rng'] = _current.rng()
    return results
