"""Any dataset as training sees it: a sample is a function of its index, bad images are replaced."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.dataset import Compose
from torch.utils.data import Dataset, get_worker_info

from ttl_mm.datasets.decode import BadImageError
from ttl_mm.datasets.image_folder import image_fault
from ttl_mm.datasets.images_in_memory import ImagesInMemory
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.views import RandomViews
from ttl_mm.errors import UserError
from ttl_mm.files.stores.remote import StoreError

MAX_TRIES = 20  # bad images in a row; if half of all are bad, this happens once in a million


# seconds between two tries to open files that cannot be opened: a minute in all
WAITS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 20)


class _Unreachable(Exception):
    """Many files in a row cannot be opened."""


class Skipped(NamedTuple):
    """A bad image that was skipped."""

    path: str
    reason: str


class Batch(NamedTuple):
    """What a worker sends: the batch, and the bad images it met on the way."""

    data: dict
    skipped: list[Skipped]


class TrainSamples(Dataset):
    """Wrap any dataset for training.

    Everything random in a sample depends on its :class:`SampleIndex` alone. Our transforms draw
    from ``results['rng']``, which :class:`ProvideRng` puts there. Transforms of other packages draw
    from the global generators, which are seeded for every sample.

    A bad image is replaced by another one, drawn from the generator of the sample, so the batch
    keeps its size and a resumed run meets the same images. :class:`Collate` sends the list of
    skipped images to the main process together with the batch.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.skipped: list[Skipped] = []
        self.provide_rng = ProvideRng()
        self.provide_rng.insert_into(dataset)

    def __getattr__(self, name: str):
        if name.startswith('__') or name == 'dataset':  # asked for while unpickling
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: SampleIndex):
        """The sample, or that of another image if it is bad."""
        return self.read_good(index, self.dataset.__getitem__)

    def read_good(self, index: SampleIndex, read: Callable[[SampleIndex], Any]) -> Any:
        """What ``read`` gives for this image, or for another one if it is bad.

        If no file of many can even be opened, the disk is taken to be away: the image is tried
        again, for up to a minute, and the run is not changed by it.
        """
        waits = iter(WAITS)
        while True:
            met = len(self.skipped)
            try:
                return self._read_or_replace(index, read)
            except _Unreachable as error:
                if (seconds := next(waits, None)) is None:
                    raise UserError(
                        f'{error}, for a minute: check data_root and the list of images, and '
                        'whether the disk is mounted.'
                    ) from None
                del self.skipped[met:]
                time.sleep(seconds)

    def _read_or_replace(self, index: SampleIndex, read: Callable[[SampleIndex], Any]) -> Any:
        replacements, reachable = None, False
        for _ in range(MAX_TRIES):
            try:
                with seeded_for(index):
                    self.provide_rng.index = index
                    return read(index)
            except BadImageError as fault:
                reachable |= not _is_unopened(fault)
                self.skipped.append(Skipped(fault.path, fault.reason or 'bad image'))
            except StoreError:
                raise
            except Exception as error:
                if not (found := self._fault(index)):
                    raise
                reachable |= not _is_unopened(found)
                self.skipped.append(Skipped(found.path, f'{found.reason} ({error})'))
            finally:
                self.provide_rng.index = None
            replacements = replacements or index.rng()
            index = SampleIndex(int(replacements.integers(len(self))), index.epoch, index.seed)
        paths = ', '.join(skipped.path for skipped in self.skipped[-3:])
        finding = f'{MAX_TRIES} images in a row cannot be read, among them {paths} '
        finding += f'({self.skipped[-1].reason})'
        if not reachable:
            raise _Unreachable(finding)
        raise UserError(f'{finding}: check data_root and the list of images.')

    def _fault(self, index: int) -> BadImageError | None:
        """What is wrong with the image, if that is why a dataset of another package failed."""
        get_data_info = getattr(self.dataset, 'get_data_info', None)
        path = get_data_info(int(index)).get('img_path') if get_data_info else None
        return image_fault(path) if isinstance(path, str) else None


class TrainBatches(TrainSamples):
    """The same for images that are kept in memory, where a whole batch is made at once."""

    def __init__(self, dataset: Any, step: RandomViews) -> None:
        super().__init__(dataset)
        self.memory = ImagesInMemory(dataset, step)

    def __getitems__(self, indices: Sequence[SampleIndex]) -> dict[str, Any]:
        """The batch; a bad image is replaced as in a single sample."""
        take, holds = self.memory.take, self.memory.holds
        rows = [i if holds(i) else self.read_good(i, take) for i in indices]
        return self.memory.batch_of(rows, indices)


def _is_unopened(fault: BadImageError) -> bool:
    """Whether the file could not even be read; an error of a decoder has no number."""
    return isinstance(fault.__cause__, OSError) and fault.__cause__.errno is not None


class ProvideRng:
    """First step of a pipeline: adds the generator ``rng`` and the ``epoch`` of the sample.

    Each :class:`TrainSamples` owns one, so a dataset may be wrapped several times. The step does
    nothing while its owner is not reading a sample.
    """

    def __init__(self) -> None:
        self.index: SampleIndex | None = None

    def insert_into(self, dataset: Any) -> None:
        """Add this step to the pipelines of a dataset and of all datasets that it wraps."""
        pipeline = getattr(dataset, 'pipeline', None)
        if isinstance(pipeline, Compose) and self not in pipeline.transforms:
            pipeline.transforms.insert(0, self)
        for inner in [getattr(dataset, 'dataset', None), *getattr(dataset, 'datasets', [])]:
            if inner is not None:
                self.insert_into(inner)

    def __call__(self, results: dict) -> dict:
        if self.index is not None:
            results['rng'] = self.index.rng()
            results['epoch'] = self.index.epoch
        return results


@contextmanager
def seeded_for(index: SampleIndex) -> Iterator[None]:
    """Seed all global CPU generators for ``index``; in the main process, restore them after it."""
    in_main_process = get_worker_info() is None
    if in_main_process:
        before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    for_python, for_numpy, for_torch = index.global_seeds()
    random.seed(for_python)
    np.random.seed(for_numpy)
    torch.default_generator.manual_seed(for_torch)
    try:
        yield
    finally:
        if in_main_process:
            random.setstate(before[0])
            np.random.set_state(before[1])
            torch.random.set_rng_state(before[2])


class Collate:
    """Join samples to a batch and add what was skipped; runs in the process that made them."""

    def __init__(self, collate: Callable, samples: TrainSamples) -> None:
        self.collate = collate
        self.samples = samples

    def __call__(self, samples: Sequence) -> Batch:
        skipped, self.samples.skipped = self.samples.skipped, []
        return Batch(self.collate(samples), skipped)
