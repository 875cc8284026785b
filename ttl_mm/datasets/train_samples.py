"""A dataset as training sees it: the same draw for the same index, and no end at a bad image."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch.utils.data import Dataset

from ttl_mm.datasets.decode import BadImageError
from ttl_mm.datasets.image_folder import image_fault
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.seeding import provide_rng, seeded_for
from ttl_mm.errors import UserError

MAX_TRIES = 20  # bad images in a row; at a share of one half this is one chance in a million


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

    A bad image is replaced by another one, drawn from the generator of the sample, so that the
    batch keeps its size and a resumed run meets the same images. :class:`Collate` hands what was
    skipped to the main process together with the batch.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.skipped: list[Skipped] = []
        provide_rng(dataset)

    def __getattr__(self, name: str):
        if name.startswith('__') or name == 'dataset':  # asked for while unpickling
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: SampleIndex):
        another = None
        for _ in range(MAX_TRIES):
            with seeded_for(index):
                try:
                    return self.dataset[index]
                except BadImageError as fault:
                    self.skipped.append(Skipped(fault.path, fault.reason or 'bad image'))
                except Exception as error:
                    if not (fault := self._fault(index)):
                        raise
                    self.skipped.append(Skipped(fault.path, f'{fault.reason} ({error})'))
            another = another or index.rng()
            index = SampleIndex(another.integers(len(self)), index.epoch, index.seed)
        paths = ', '.join(skipped.path for skipped in self.skipped[-3:])
        raise UserError(
            f'{MAX_TRIES} images in a row cannot be read, among them {paths} '
            f'({self.skipped[-1].reason}): check data_root and the list of images.'
        )

    def _fault(self, index: int) -> BadImageError | None:
        """Whether a dataset of another package failed because of its image."""
        get_data_info = getattr(self.dataset, 'get_data_info', None)
        path = get_data_info(int(index)).get('img_path') if get_data_info else None
        return image_fault(path) if isinstance(path, str) else None


class Collate:
    """Join samples to a batch, and take along what was skipped. Runs where the samples are made."""

    def __init__(self, collate: Callable, samples: TrainSamples) -> None:
        self.collate = collate
        self.samples = samples

    def __call__(self, samples: Sequence) -> Batch:
        skipped, self.samples.skipped = self.samples.skipped, []
        return Batch(self.collate(samples), skipped)
