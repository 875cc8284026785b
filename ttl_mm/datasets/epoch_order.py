"""In which order an epoch takes its images: any part of it, without the rest.

All images are shuffled among each other where they can be. Archives that are fetched from a store
into a cache too small for all of them are shuffled window by window: the archives come in a random
order, as many in a row as have up to W images are a window, and the images of a window are shuffled
among each other. So two windows in the cache are enough, the one that is read and the next one. The
windows of the first epoch begin with W / 16 images and double, so that a run starts early.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ttl_mm.datasets.permutation import permuted
from ttl_mm.files.archives.index import name_in_archive

HALVINGS = 4  # from the window to the first one of a run
_ARCHIVES, _IMAGES = 1, 2  # what else than all images is permuted, as a part of its seed


class Archives(NamedTuple):
    """The archives that the images of a list lie in."""

    names: list[str]
    starts: np.ndarray  # (A + 1,) the first image of each in the list, and the number of images
    apart: str = ''  # one whose images do not follow each other, so that there are no windows


class Windows(NamedTuple):
    """The windows of an epoch."""

    archives: np.ndarray  # (A,) in the order of the epoch
    places: np.ndarray  # (A + 1,) where the images of each begin, before windows are shuffled
    first: np.ndarray  # (W + 1,) the first of the archives of each window
    starts: np.ndarray  # (W + 1,) the place where each window begins


@dataclass
class EpochOrder:
    """The order of the images of an epoch, which seed and epoch select.

    Args:
        images: Their number.
        shuffle: False takes them in the order of the list.
        window: So many are shuffled among each other, 0 for all; only images in archives have
            windows.
        archives: The archives that they lie in, if a window is given.
    """

    images: int
    shuffle: bool = True
    window: int = 0
    archives: Archives | None = None
    _kept: tuple[tuple[int, int], Windows] | None = field(default=None, repr=False)

    def at(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The images at these places (N,)."""
        if not self.shuffle:
            return places
        if not self.window:
            return permuted(places, self.images, (seed, epoch))
        windows = self.windows(seed, epoch)
        which = np.searchsorted(windows.starts, places, 'right') - 1
        order = np.argsort(which, kind='stable')
        shuffled = np.empty(len(places), np.int64)
        for mine in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
            if len(mine):
                window = int(which[mine[0]])
                start, stop = windows.starts[window : window + 2].tolist()
                key = (seed, epoch, _IMAGES, window)
                shuffled[mine] = start + permuted(places[mine] - start, stop - start, key)
        archive = np.searchsorted(windows.places, shuffled, 'right') - 1
        assert self.archives is not None
        starts = self.archives.starts[windows.archives[archive]]
        return starts + shuffled - windows.places[archive]

    def windows(self, seed: int, epoch: int) -> Windows:
        """The windows of an epoch: one of all archives without a window, each archive one of its
        own without a shuffle.
        """
        if self._kept is None or self._kept[0] != (seed, epoch):
            self._kept = (seed, epoch), self._windows(seed, epoch)
        return self._kept[1]

    def _windows(self, seed: int, epoch: int) -> Windows:
        assert self.archives is not None
        starts = self.archives.starts
        order = np.arange(len(starts) - 1)
        if not self.shuffle:
            return Windows(order, starts, np.arange(len(starts)), starts)
        if not self.window:
            return Windows(order, starts, np.array([0, len(order)]), starts[[0, -1]])
        order = permuted(order, len(order), (seed, epoch, _ARCHIVES))
        places = np.concatenate(([0], np.cumsum(np.diff(starts)[order])))
        first, halvings = [0], 0 if epoch else HALVINGS
        while first[-1] < len(order):
            size = max(1, self.window >> max(0, halvings - len(first) + 1))
            end = int(np.searchsorted(places, places[first[-1]] + size, 'right')) - 1
            first.append(max(end, first[-1] + 1))
        return Windows(order, places, np.array(first), places[first])


def archives_of(names: Iterable[str]) -> Archives | None:
    """The archives that images of these names lie in; None if some lie in none."""
    found: dict[str, int] = {}
    count, current, apart = 0, '', ''
    for name in names:
        if not current or not name.startswith(current):
            archive = name_in_archive(name)[0]
            if not archive:
                return None
            if archive in found:
                apart = archive
            found.setdefault(archive, count)
            current = f'{archive}/'
        count += 1
    return Archives(list(found), np.array([*found.values(), count], np.int64), apart)
