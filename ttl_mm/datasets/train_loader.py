"""The data loader of training: it starts at any batch, and workers do not change what it yields."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.dist import get_world_size
from torch.utils.data import BatchSampler, DataLoader

from ttl_mm.datasets.epoch_order import EpochOrder
from ttl_mm.datasets.epoch_steps import EpochSteps
from ttl_mm.datasets.images_in_memory import step_in_memory
from ttl_mm.datasets.read_ahead import ReadAhead
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.datasets.train_samples import Collate, TrainBatches, TrainSamples

SECONDS_TO_SAVE = 60  # that a worker lives on after SIGTERM
IGNORED_BY_WORKERS = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class BegunEpoch(NamedTuple):
    """An epoch that was begun in another order than there is now, and goes on in it."""

    epoch: int
    order: EpochOrder
    new_index: np.ndarray | None  # (images,) of each image in the list of now, -1 where it is gone


class EpochBatches:
    """The batches of indices of one epoch, from any image of its order on.

    Wraps any batch sampler. Batches of consecutive images of an :class:`EpochSampler` are made
    here (:class:`~ttl_mm.datasets.epoch_steps.EpochSteps`), so that the position is a number of
    images, whatever the batch and the number of ranks were before. Of other batch samplers (mmdet's
    groups by aspect ratio), the batches before the position are drawn and dropped, which reads no
    data.
    """

    def __init__(self, batch_sampler, seed: int) -> None:
        self.batch_sampler = batch_sampler
        self.sampler: Any = getattr(batch_sampler, 'sampler', None)
        self.batch_size: Any = getattr(batch_sampler, 'batch_size', None)
        self.drop_last: bool = getattr(batch_sampler, 'drop_last', False)
        self.seed = seed
        self.epoch = 0
        consecutive = type(batch_sampler) is BatchSampler
        self._consecutive = consecutive and isinstance(self.sampler, EpochSampler)
        self.begun: BegunEpoch | None = None
        self._steps = self._steps_from(0)  # of the position that was set last
        self._places: np.ndarray | None = None  # the places of these steps, if not all are left
        self._at_position = False  # whether the next iteration begins there
        self.read_ahead = ReadAhead(self.sampler)
        self._mine: Sequence[int] = ()  # the ranks whose batches are made here, if not one alone

    def take_ranks(self, ranks: int, mine: Sequence[int]) -> bool:
        """Make the batches of several of the ``ranks`` of a run, one after another in one batch.

        Returns:
            Whether that is possible; it is not where another sampler deals out the images.
        """
        if not self._consecutive:
            return False
        self.sampler.world_size, self._mine = ranks, mine
        self._steps = self._steps_from(0)
        return True

    def __len__(self) -> int:
        """Steps of a whole epoch."""
        return len(self._steps_from(0)) if self._consecutive else len(self.batch_sampler)

    @property
    def window(self) -> int:
        """How many images are shuffled among each other, 0 for all."""
        return self.sampler.order.window if self._consecutive else 0

    def _steps_from(self, taken: int, images: int | None = None) -> EpochSteps:
        ranks = self.sampler.world_size if self._consecutive else get_world_size()
        if images is None:
            images = self.sampler.size if self._consecutive else len(self.batch_sampler) * ranks
        return EpochSteps(images, taken, self.batch_size or 1, ranks, self.drop_last)

    def set_position(self, epoch: int, taken: int = 0) -> int:
        """Let the next iteration yield ``epoch`` without the first ``taken`` images of all ranks.

        Later ones yield the whole epoch, until a position is set again.

        Returns:
            The number of steps that are left of the epoch.
        """
        self.epoch = epoch
        for part in (self.sampler, self.batch_sampler):
            if hasattr(part, 'set_epoch'):
                part.set_epoch(epoch)
        self._places, self._at_position = None, True
        self._steps = self._steps_from(taken)
        if not self._consecutive:
            return max(0, len(self) - self._batches_before())
        begun = self._begun()
        if begun is not None and begun.new_index is not None:
            left = np.arange(taken, begun.order.images)
            old = begun.order.at(left, self.sampler.seed, epoch)
            self._places = taken + np.flatnonzero(begun.new_index[old] >= 0)
            self._steps = self._steps_from(0, len(self._places))
        return len(self._steps)

    def _begun(self) -> BegunEpoch | None:
        return self.begun if self.begun is not None and self.begun.epoch == self.epoch else None

    def taken_after(self, steps: int) -> int:
        """How many images of the epoch's order are taken, ``steps`` after the position was set."""
        taken = self._steps.taken_after(steps)
        if self._places is None:
            return taken if self._consecutive else self._steps.taken + steps * self._size()
        return int(self._places[taken - 1]) + 1 if taken else 0

    def _size(self) -> int:
        return self._steps.batch * self._steps.ranks

    def _batches_before(self) -> int:
        return -(-self._steps.taken // self._size())

    def __iter__(self) -> Iterator[list[SampleIndex]]:
        at_position, self._at_position = self._at_position, False
        if not self._consecutive:
            before = self._batches_before() if at_position else 0
            for batch in islice(self.batch_sampler, before, None):
                yield [
                    i if isinstance(i, SampleIndex) else SampleIndex(i, self.epoch, self.seed)
                    for i in batch
                ]
            return
        steps, left, begun = self._steps_from(0), None, None
        if at_position:
            steps, left, begun = self._steps, self._places, self._begun()
        for step in range(len(steps)):
            shares = [steps.places(step, rank) for rank in self._mine or [self.sampler.rank]]
            places = np.concatenate(shares)
            if left is not None:
                places = left[places]
            self.read_ahead.from_place(begun.order if begun else self.sampler.order, places)
            yield self.sampler.at(places) if begun is None else self._of_begun(begun, places)

    def _of_begun(self, begun: BegunEpoch, places: np.ndarray) -> list[SampleIndex]:
        """Images by the order that the epoch was begun with, with its random draws."""
        images = self.sampler.at(places, begun.order)
        if begun.new_index is None:
            return images
        new = begun.new_index[[int(image) for image in images]].tolist()
        return [image.at(index) for image, index in zip(images, new)]


class TrainLoader(DataLoader):
    """A loader whose workers survive a signal that arrives while they start.

    A new process inherits which signals are blocked, so a signal to the whole process group waits
    until :func:`_start_worker` has said how it is served.
    """

    def __iter__(self):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*IGNORED_BY_WORKERS, signal.SIGTERM})
        try:
            return super().__iter__()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def train_loader(loader: DataLoader, seed: int) -> TrainLoader:
    """``loader`` over :class:`TrainSamples` and :class:`EpochBatches`.

    It can start at any batch (``loader.batch_sampler.set_position``), its samples depend on nothing
    but their index, and bad images are replaced. It yields
    :class:`~ttl_mm.datasets.train_samples.Batch`.
    """
    step = step_in_memory(loader.dataset)
    samples = TrainBatches(loader.dataset, step) if step else TrainSamples(loader.dataset)
    collate = _as_it_is if step else loader.collate_fn
    return TrainLoader(
        samples,
        batch_sampler=EpochBatches(loader.batch_sampler, seed),
        collate_fn=Collate(collate, samples),
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=partial(_start_worker, loader.worker_init_fn),
        multiprocessing_context=loader.multiprocessing_context,
        generator=torch.Generator(),  # else it draws a seed per epoch from the global state
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _as_it_is(batch: dict) -> dict:
    """The collate function of whole batches."""
    return batch


def _start_worker(init: Callable[[int], None] | None, worker: int) -> None:
    # A signal to the whole process group asks the run to save and end. Its workers must outlive the
    # save, or the run would end for want of data.
    for number in IGNORED_BY_WORKERS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, 'sigwaitinfo'):  # not on macOS
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM})  # left to the thread
        Thread(target=_end_with_loader, args=(os.getppid(),), daemon=True).start()
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if init is not None:
        init(worker)


def _end_with_loader(loader: int) -> None:
    """End at once on a SIGTERM from the loader's process, a minute after one from anybody else."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != loader:
        signal.alarm(SECONDS_TO_SAVE)
    os._exit(0)


def wait_for_workers_only() -> None:
    """Let a worker that died be noticed where its batch is waited for, and nowhere else.

    Torch raises an error as soon as the signal arrives, which may be in the middle of a step. A
    loader notices as well, within five seconds, between two steps, where the run can be saved.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if getattr(handler, '__module__', '').startswith('torch.'):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def is_lost_worker(error: Exception, loader: DataLoader) -> bool:
    """Whether the loader failed because one of its processes is gone.

    It then says so, or the connection to that process breaks. Errors that a worker met in the data
    arrive here too; torch puts 'Caught' before their text.
    """
    from_afar = isinstance(error, (RuntimeError, OSError, EOFError))
    return loader.num_workers > 0 and from_afar and not str(error).startswith('Caught ')
