"""Seed the global generators for one sample.

Transforms of ours draw from ``results['rng']``. Those of other packages draw from the global
generators of Python, NumPy and torch, whose state depends on the worker and on what it did before.
Seeding them for every sample makes any pipeline a function of (seed, epoch, sample index).
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils.data import get_worker_info

from ttl_mm.datasets.sample_index import SampleIndex


@contextmanager
def seeded_for(index: SampleIndex) -> Iterator[None]:
    """Seed all global CPU generators for ``index``; the main process gets its own state back."""
    words = np.random.SeedSequence((index.seed, index.epoch, int(index), 1)).generate_state(3)
    in_main_process = get_worker_info() is None
    if in_main_process:
        before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))
    torch.random.default_generator.manual_seed(int(words[2]))
    try:
        yield
    finally:
        if in_main_process:
            random.setstate(before[0])
            np.random.set_state(before[1])
            torch.random.set_rng_state(before[2])
