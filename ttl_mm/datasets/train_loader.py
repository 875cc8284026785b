"""The data loader of training: exact position, exact draws, whatever dataset and sampler."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import torch
from torch.utils.data import BatchSampler, DataLoader

from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_samples import Collate, TrainSamples


class EpochBatches:
    """The batches of indices of one epoch, from any of them on.

    Wraps any batch sampler. A sampler that can :meth:`seek` is sent to the place, if its batches
    are simply cut from it; of any other the indices before it are drawn and dropped, which reads
    no data.
    """

    def __init__(self, batch_sampler, seed: int) -> None:
        self.batch_sampler = batch_sampler
        self.sampler = getattr(batch_sampler, 'sampler', None)
        self.batch_size: int | None = getattr(batch_sampler, 'batch_size', None)
        self.drop_last: bool = getattr(batch_sampler, 'drop_last', False)
        self.seed = seed
        self.epoch = 0
        self._start = 0

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def set_position(self, epoch: int, start: int) -> None:
        """The next iteration yields ``epoch`` without its first ``start`` batches."""
        self.epoch = epoch
        self._start = start
        for part in (self.sampler, self.batch_sampler):
            if hasattr(part, 'set_epoch'):
                part.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[SampleIndex]]:
        start, self._start = self._start, 0
        plain = type(self.batch_sampler) is BatchSampler  # not one that groups by aspect ratio
        if start and plain and hasattr(self.sampler, 'seek'):
            self.sampler.seek(start * self.batch_size)
            start = 0
        for batch in islice(self.batch_sampler, start, None):
            yield [self._with_draw(index) for index in batch]

    def _with_draw(self, index: int) -> SampleIndex:
        if isinstance(index, SampleIndex):
            return index
        return SampleIndex(index, self.epoch, self.seed)


def train_loader(loader: DataLoader, seed: int) -> DataLoader:
    """``loader`` with exact positions, draws that depend on nothing but the index, and skipping.

    It yields :class:`~ttl_mm.datasets.train_samples.Batch`.
    """
    samples = TrainSamples(loader.dataset)
    workers = {}
    if loader.num_workers > 0:
        workers = {
            'persistent_workers': loader.persistent_workers,
            'prefetch_factor': loader.prefetch_factor,
            'multiprocessing_context': loader.multiprocessing_context,
        }
    return DataLoader(
        samples,
        batch_sampler=EpochBatches(loader.batch_sampler, seed),
        collate_fn=Collate(loader.collate_fn, samples),
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=partial(_start_worker, loader.worker_init_fn),
        generator=torch.Generator(),  # a loader draws a seed per epoch: not from the global state
        **workers,
    )


def _start_worker(init: Callable[[int], None] | None, worker: int) -> None:
    # a worker forked from a run that saves on SIGTERM must still end on it
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if init is not None:
        init(worker)


__all__ = []
