"""Which archives of a store an epoch needs next: they are fetched before they are read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.datasets.epoch_order import EpochOrder
from ttl_mm.files.stores.cache import is_remote
from ttl_mm.files.stores.prefetch import Prefetcher


class ReadAhead:
    """Tells the prefetcher of this machine which archives the next steps and epochs will read.

    The first process of a machine does so for all of them, since they take their images from one
    order.

    Args:
        sampler: An :class:`~ttl_mm.datasets.sampler.EpochSampler`; with others nothing is done.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self._until = (-1, 0)  # epoch and place up to which it knows
        self._prefetcher: Prefetcher | None = None

    def from_place(self, order: EpochOrder, places: np.ndarray) -> None:
        """A step takes these places of an order next."""
        epoch, place = self.sampler.epoch, int(places[0])
        if order.archives is None or int(os.environ.get('LOCAL_RANK', 0)):
            return
        if self._until[0] == epoch and place < self._until[1]:
            return
        windows = order.windows(self.sampler.seed, epoch)
        window = int(np.searchsorted(windows.starts, place, 'right')) - 1
        self._until = epoch, int(windows.starts[window + 1])
        ahead = self._archives(order, window)
        if self._prefetcher is None:
            self._prefetcher = Prefetcher()
        self._prefetcher.want(ahead)

    def _archives(self, order: EpochOrder, window: int) -> Iterator[list[Path]]:
        """The archives of each window from one on, then of the next epoch."""
        seed, epoch = self.sampler.seed, self.sampler.epoch
        root = Path(self.sampler.dataset.data_root)
        for number in (epoch, epoch + 1):
            of_epoch = order if number == epoch else self.sampler.order
            if of_epoch.archives is None:
                return
            windows = of_epoch.windows(seed, number)
            names = of_epoch.archives.names
            for first, end in zip(windows.first[window:], windows.first[window + 1 :]):
                paths = (root / names[i] for i in windows.archives[first:end].tolist())
                yield [path for path in paths if is_remote(path)]
            window = 0
