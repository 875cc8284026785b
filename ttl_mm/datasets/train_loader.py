"""The data loader of training: it starts at any batch, and workers do not change what it yields."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_samples import Collate, TrainSamples


class EpochBatches:
    """The batches of indices of one epoch, from any of them on.

    Wraps any batch sampler. If its batches are consecutive indices of a sampler that can ``seek``,
    the sampler jumps to the first batch. Otherwise the indices before it are drawn and dropped,
    which reads no data.
    """

    def __init__(self, batch_sampler, seed: int) -> None:
        self.batch_sampler = batch_sampler
        self.sampler: Any = getattr(batch_sampler, 'sampler', None)
        self.batch_size: Any = getattr(batch_sampler, 'batch_size', None)
        self.drop_last: bool = getattr(batch_sampler, 'drop_last', False)
        self.seed = seed
        self.epoch = 0
        self._start = 0

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def set_position(self, epoch: int, start: int) -> None:
        """Let the next iteration yield ``epoch`` without its first ``start`` batches."""
        self.epoch = epoch
        self._start = start
        for part in (self.sampler, self.batch_sampler):
            if hasattr(part, 'set_epoch'):
                part.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[SampleIndex]]:
        start, self._start = self._start, 0
        consecutive = type(self.batch_sampler) is BatchSampler  # mmdet's groups by aspect ratio
        if start and consecutive and hasattr(self.sampler, 'seek'):
            self.sampler.seek(start * self.batch_size)
            start = 0
        for batch in islice(self.batch_sampler, start, None):
            yield [
                i if isinstance(i, SampleIndex) else SampleIndex(i, self.epoch, self.seed)
                for i in batch
            ]


def train_loader(loader: DataLoader, seed: int) -> DataLoader:
    """``loader`` over :class:`TrainSamples` and :class:`EpochBatches`.

    It can start at any batch (``loader.batch_sampler.set_position``), its samples depend on nothing
    but their index, and bad images are replaced. It yields
    :class:`~ttl_mm.datasets.train_samples.Batch`.
    """
    samples = TrainSamples(loader.dataset)
    return DataLoader(
        samples,
        batch_sampler=EpochBatches(loader.batch_sampler, seed),
        collate_fn=Collate(loader.collate_fn, samples),
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=partial(_start_worker, loader.worker_init_fn),
        multiprocessing_context=loader.multiprocessing_context,
        generator=torch.Generator(),  # else it draws a seed per epoch from the global state
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _start_worker(init: Callable[[int], None] | None, worker: int) -> None:
    # a run saves on these signals; its workers, which inherit the handlers, must simply end
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if init is not None:
        init(worker)
