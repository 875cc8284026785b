"""The sampler of training: any size, any number of ranks, and it can start anywhere."""

from collections.abc import Iterator, Sized

import numpy as np
from mmengine.dist import get_dist_info, sync_random_seed
from torch.utils.data import Sampler

from ttl_mm.datasets.permutation import permuted
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.registry import DATA_SAMPLERS

CHUNK = 4096  # indices computed at once


@DATA_SAMPLERS.register_module()
class EpochSampler(Sampler[SampleIndex]):
    """Every image once an epoch, dealt out to the ranks, in an order that (seed, epoch) decides.

    It holds no list of indices, so 30 million images cost nothing, and :meth:`seek` continues an
    epoch in the middle without walking there. Where the ranks do not divide the images, the first
    images of the epoch fill up, so that all ranks take the same number of steps.

    Args:
        dataset: Anything with a length.
        shuffle: False yields the images in their order.
        seed: The same on every rank; drawn and shared when None.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int | None = None) -> None:
        self.dataset = dataset  # mmdet's AspectRatioBatchSampler asks its sampler for image sizes
        self.size = len(dataset)
        if self.size == 0:
            raise UserError(
                f'the dataset {type(dataset).__name__} has no images: check its data_root.'
            )
        self.rank, self.world_size = get_dist_info()
        self.shuffle = shuffle
        self.seed = sync_random_seed() if seed is None else seed
        self.epoch = 0
        self._start = 0

    def __len__(self) -> int:
        """Images of this rank in a whole epoch."""
        return -(-self.size // self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration yields this epoch, from its beginning."""
        self.epoch = epoch
        self._start = 0

    def seek(self, start: int) -> None:
        """The next iteration leaves out the first ``start`` images of this rank."""
        self._start = start

    def __iter__(self) -> Iterator[SampleIndex]:
        start, self._start = self._start, 0
        for begin in range(start, len(self), CHUNK):
            turns = np.arange(begin, min(begin + CHUNK, len(self)))
            indices = (turns * self.world_size + self.rank) % self.size
            if self.shuffle:
                indices = permuted(indices, self.size, (self.seed, self.epoch))
            for index in indices.tolist():
                yield SampleIndex(index, self.epoch, self.seed)
