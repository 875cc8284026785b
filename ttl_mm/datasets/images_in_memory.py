"""A dataset that holds its images in memory and makes the views of a whole batch at once."""

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmpretrain.structures import DataSample
from torch import Tensor
from torch.utils.data import Dataset

from ttl_mm.datasets.batch_views import NUMBERS, draw_batch, render_batch
from ttl_mm.datasets.decode import ImageFile, open_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.view_params import View
from ttl_mm.datasets.views import PAPER_VIEWS, as_bgr, resized
from ttl_mm.errors import UserError
from ttl_mm.files.image_header import MAX_PIXELS
from ttl_mm.registry import DATASETS

GIB = 2**30
MARGIN = 1.5  # edge of a stored image in those of its largest view


@DATASETS.register_module()
class ImagesInMemory(Dataset):
    """Another dataset's images, each decoded once, resized to a square and kept in memory.

    An epoch then reads no file, and the views of a batch are made together
    (:mod:`~ttl_mm.datasets.batch_views`), which is several times as fast as one by one. It is for
    sets that fit into memory: 100,000 images at 144 pixels take 5.8 GB. Worker processes share it.

    A batch depends on its indices alone, as with :class:`~ttl_mm.datasets.views.RandomViews`: it is
    the same for any number of workers, on any rank, and after a resume. An image that cannot be
    read is replaced by another.

    Args:
        dataset: The images, or their config; its pipeline is not used.
        views: Keyword arguments of :class:`~ttl_mm.datasets.view_params.View`.
        edge: Pixels of an image in memory; by default 1.5 times the largest view, which loses
            nothing in crops from 0.44 of the area on, and little in smaller ones.
        with_label: Whether batches have the labels, for gauges and for training with labels.
        rgb: Whether images that the dataset has in memory are RGB, and the views shall be too.
        max_gb: More memory is refused.
        max_pixels: Larger files are refused.
    """

    def __init__(
        self,
        dataset: Any,
        views: Sequence[Mapping[str, Any]] = PAPER_VIEWS,
        edge: int | None = None,
        with_label: bool = False,
        rgb: bool = False,
        max_gb: float = 4.0,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, Mapping) else dataset
        kinds = [View(**view) for view in views]
        if not kinds:
            raise UserError('ImagesInMemory needs at least one view, found views=[].')
        self.views = [view for view in kinds for _ in range(view.num)]
        self.edge = edge or default_edge(kinds)
        self.with_label, self.rgb, self.max_pixels = with_label, rgb, max_pixels
        self.metainfo = getattr(self.dataset, 'metainfo', {})
        needed = memory_of(len(self), self.edge) / GIB
        if needed > max_gb:
            raise UserError(
                f'{len(self):,} images at {self.edge} pixels take {needed:.1f} GB of memory, and '
                f'max_gb={max_gb:g}: use ttl_mm.RandomViews, a smaller edge, or a higher max_gb.'
            )
        self._allocate()

    def _allocate(self) -> None:
        n = len(self)
        self.images = torch.from_numpy(_shared((n, 3, self.edge, self.edge), np.uint8))
        self.sizes = _shared((n, 2), np.int32)  # height and width of the file; 0: not read yet

    def __getstate__(self) -> dict:
        """For processes that are not forked: they read the images themselves."""
        return {k: v for k, v in self.__dict__.items() if k not in ('images', 'sizes')}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._allocate()

    def __len__(self) -> int:
        return len(self.dataset)

    def get_data_info(self, index: int) -> dict:
        """What is known about an image before its file is opened."""
        return self.dataset.get_data_info(index)

    def get_gt_labels(self) -> np.ndarray:
        """The class of every image."""
        return self.dataset.get_gt_labels()

    def holds(self, index: int) -> bool:
        """Whether the image is in memory."""
        return bool(self.sizes[index, 0])

    def __getitem__(self, index: int) -> int:
        """Take an image into memory; its position."""
        row = int(index)
        if not self.holds(row):
            info = self.get_data_info(row)
            if 'img' in info:
                file = ImageFile.of(as_bgr(info['img'], self.rgb))
            else:
                file = open_image(info['img_path'], self.max_pixels)
            image = resized(file.decode(1), (self.edge, self.edge))
            self.images[row] = torch.from_numpy(image).permute(2, 0, 1)
            self.sizes[row] = file.height, file.width  # in the end: other processes may look
        return row

    def batch_of(self, rows: Sequence[int], indices: Sequence[SampleIndex]) -> dict[str, Any]:
        """The batch of the images ``rows``, each with the random draws of its index."""
        images = self.images[torch.tensor(rows)].float()
        heights, widths = self.sizes[rows].T
        numbers = np.stack([index.rng().random(len(self.views) * NUMBERS) for index in indices])
        views: list[Tensor] = []
        for view, u in zip(self.views, np.split(numbers, len(self.views), axis=1)):
            view = view.at(indices[0].epoch)
            found = render_batch(images, view, draw_batch(view, heights, widths, u))
            views.append(found.flip(1) if self.rgb else found)
        return {'inputs': views, 'data_samples': self._labels(rows)}

    def _labels(self, rows: Sequence[int]) -> list[DataSample] | None:
        if not self.with_label:
            return None
        labels = np.asarray(self.get_gt_labels())[rows]
        return [DataSample().set_gt_label(int(label)) for label in labels]


def default_edge(views: Sequence[View]) -> int:
    """The edge at which images are kept for these views.

    >>> default_edge([View(size=48, later_sizes=[(3, 64)])])
    96
    """
    sizes = [view.size for view in views]
    later = [size for view in views for _, size in view.later_sizes]
    return round(MARGIN * max(max(size) for size in sizes + later))  # type: ignore[arg-type]


def memory_of(images: int, edge: int) -> int:
    """Bytes that so many images take."""
    return images * (3 * edge**2 + 8)


def _shared(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Zeros that forked processes share; pages are taken when they are first written."""
    count = int(np.prod(shape))
    memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize))
    return np.frombuffer(memory, dtype, count).reshape(shape)
