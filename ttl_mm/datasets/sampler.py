"""The sampler of training: for any number of images and ranks, starting at any of them."""

from collections.abc import Iterator, Sized

import numpy as np
from mmengine.dist import get_dist_info, sync_random_seed
from torch.utils.data import Sampler

from ttl_mm.datasets.epoch_steps import EpochSteps
from ttl_mm.datasets.permutation import permuted
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.registry import DATA_SAMPLERS

CHUNK = 4096  # indices computed at once


@DATA_SAMPLERS.register_module()
class EpochSampler(Sampler[SampleIndex]):
    """Every image once per epoch, distributed over the ranks, in an order set by (seed, epoch).

    It holds no list of indices, so 30 million images take no memory, and :meth:`at` gives any part
    of the order at once. If the number of images is not a multiple of the number of ranks, the
    first images of the epoch come a second time, so that all ranks take equally many.

    Args:
        dataset: Anything with a length.
        shuffle: False yields the images in the order of the dataset.
        seed: The same on every rank; by default one is drawn and shared.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int | None = None) -> None:
        self.dataset = dataset  # mmdet's AspectRatioBatchSampler asks its sampler for image sizes
        self.size = len(dataset)
        if self.size == 0:
            raise UserError(f'{type(dataset).__name__} has no images: check its data_root.')
        self.rank, self.world_size = get_dist_info()
        self.shuffle = shuffle
        self.seed = sync_random_seed() if seed is None else seed
        self.epoch = 0

    def __len__(self) -> int:
        """Number of images of this rank in a whole epoch."""
        return -(-self.size // self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration yield this epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[SampleIndex]:
        chunks = EpochSteps(self.size, 0, CHUNK, self.world_size, drop_last=False)
        for chunk in range(len(chunks)):
            yield from self.at(chunks.places(chunk, self.rank))

    def at(self, places: np.ndarray) -> list[SampleIndex]:
        """The images at these places of the order of the epoch, which all ranks share."""
        indices = self.order(places, self.size)
        return [SampleIndex(index, self.epoch, self.seed) for index in indices.tolist()]

    def order(self, places: np.ndarray, size: int) -> np.ndarray:
        """Their indices, in an epoch of ``size`` images."""
        return permuted(places, size, (self.seed, self.epoch)) if self.shuffle else places
