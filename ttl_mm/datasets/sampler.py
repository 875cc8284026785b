"""The sampler of training: for any number of images and ranks, starting at any of them."""

from collections.abc import Iterator, Sequence, Sized
from pathlib import Path

import numpy as np
from mmengine.dist import all_gather_object, get_dist_info, sync_random_seed
from mmengine.logging import print_log
from torch.utils.data import Sampler

from ttl_mm.datasets.epoch_order import Archives, EpochOrder, archives_of
from ttl_mm.datasets.epoch_steps import EpochSteps
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.files.stores.cache import cache_bound, is_remote, remote_file
from ttl_mm.files.stores.url import store_root
from ttl_mm.registry import DATA_SAMPLERS

CHUNK = 4096  # indices computed at once
SHARE = 0.45  # of the cache that a window takes: the next one must find room, too


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
        window: How many images in archives are shuffled among each other
            (:mod:`ttl_mm.datasets.epoch_order`). By default all; of archives in a store that the
            cache cannot hold together, as many as fit into 45 % of it.
    """

    def __init__(
        self,
        dataset: Sized,
        shuffle: bool = True,
        seed: int | None = None,
        window: int | None = None,
    ) -> None:
        self.dataset = dataset  # mmdet's AspectRatioBatchSampler asks its sampler for image sizes
        self.size = len(dataset)
        if self.size == 0:
            raise UserError(f'{type(dataset).__name__} has no images: check its data_root.')
        if window is not None and (type(window) is not int or window < 1):
            raise UserError(f'window={window!r}: it is a number of images, 1 or more.')
        self.rank, self.world_size = get_dist_info()
        self.shuffle = shuffle
        self.seed = sync_random_seed() if seed is None else seed
        self.epoch = 0
        self.order = self._order(window)

    def _order(self, window: int | None) -> EpochOrder:
        names = getattr(self.dataset, 'names', None)
        root = Path(getattr(self.dataset, 'data_root', None) or '')
        stored = is_remote(root) or store_root().is_relative_to(root)
        small = self.shuffle and window is not None and window < self.size
        archives = archives_of(names) if isinstance(names, Sequence) and (small or stored) else None
        if small and archives is None:
            raise UserError(
                f'window={window}: only images in archives have windows. Leave it out, or write '
                'archives with `ttl shard`.'
            )
        if window is None and self.shuffle and archives is not None:
            window = min(all_gather_object(_fitting_window(root, archives)))
        if window is None or window >= self.size:
            window = 0
        if archives is not None and archives.apart:
            if window:
                raise UserError(
                    f'{archives.apart} stands in several places of the list of images, so it '
                    'cannot be read window by window: sort the list.'
                )
            archives = None
        if window and self.shuffle:
            print_log(
                f'Images are shuffled in windows of up to {window:,}, of {self.size:,}: see '
                '"Order" in docs/data.md.',
                'current',
            )
        return EpochOrder(self.size, self.shuffle, window, archives)

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

    def at(self, places: np.ndarray, order: EpochOrder | None = None) -> list[SampleIndex]:
        """The images at these places of the order of the epoch, which all ranks share."""
        indices = (order or self.order).at(places, self.seed, self.epoch)
        return [SampleIndex(index, self.epoch, self.seed) for index in indices.tolist()]


def _fitting_window(root: Path, archives: Archives) -> int:
    """How many images a window may have, so that the cache of this machine holds two of them."""
    paths = [root / name for name in archives.names]
    size = sum(remote_file(path).size for path in paths if is_remote(path))
    images, bound = int(archives.starts[-1]), cache_bound()
    return images if size <= bound else max(1, int(images * SHARE * bound / size))
