"""Images of training in memory: each is decoded once, and a batch makes its views together."""

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.dataset import Compose
from mmpretrain.structures import DataSample
from torch import Tensor

from ttl_mm.datasets.batch_views import NUMBERS, draw_batch, render_batch
from ttl_mm.datasets.decode import ImageFile, open_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.views import RandomViews, as_bgr, resized


class ImagesInMemory:
    """The images of a dataset, resized to squares, and batches of their views.

    A batch depends on its indices alone, as if views were made one by one: it is the same for any
    number of workers, on any rank, and after a resume. Processes that are forked share the memory.

    Args:
        dataset: The images, with ``get_data_info``; its pipeline is not used.
        step: The views that are made of them.
    """

    def __init__(self, dataset: Any, step: RandomViews) -> None:
        assert step.edge is not None
        self.dataset, self.step, self.edge = dataset, step, step.edge
        self.with_label = 'gt_label' in dataset.get_data_info(0)
        self._allocate()

    def _allocate(self) -> None:
        n = len(self.dataset)
        self.images = torch.from_numpy(_shared((n, 3, self.edge, self.edge), np.uint8))
        self.sizes = _shared((n, 2), np.int32)  # height and width of the file; 0: not read yet

    def __getstate__(self) -> dict:
        """For processes that are not forked: they read the images themselves."""
        return {k: v for k, v in self.__dict__.items() if k not in ('images', 'sizes')}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._allocate()

    def holds(self, index: int) -> bool:
        """Whether the image is in memory."""
        return bool(self.sizes[index, 0])

    def take(self, index: int) -> int:
        """Take an image into memory; its position.

        Raises:
            BadImageError: It cannot be read.
        """
        row = int(index)
        if not self.holds(row):
            info = self.dataset.get_data_info(row)
            if 'img' in info:
                file = ImageFile.of(as_bgr(info['img'], self.step.rgb))
            else:
                file = open_image(info['img_path'], self.step.max_pixels)
            image = resized(file.decode(1), (self.edge, self.edge))
            self.images[row] = torch.from_numpy(image).permute(2, 0, 1)
            self.sizes[row] = file.height, file.width  # in the end: other processes may look
        return row

    def batch_of(self, rows: Sequence[int], indices: Sequence[SampleIndex]) -> dict[str, Any]:
        """The batch of the images ``rows``, each with the random draws of its index."""
        images = self.images[torch.tensor(rows)].float()
        heights, widths = self.sizes[rows].T
        kinds = self.step.views
        numbers = np.stack([index.rng().random(len(kinds) * NUMBERS) for index in indices])
        views: list[Tensor] = []
        for view, u in zip(kinds, np.split(numbers, len(kinds), axis=1)):
            view = view.at(indices[0].epoch)
            found = render_batch(images, view, draw_batch(view, heights, widths, u))
            views.append(found.flip(1) if self.step.rgb else found)
        samples = None
        if self.with_label:
            labels = [self.dataset.get_data_info(row)['gt_label'] for row in rows]
            samples = [DataSample().set_gt_label(label) for label in labels]
        return {'inputs': views, 'data_samples': samples}


def step_in_memory(dataset: Any) -> RandomViews | None:
    """The step of a dataset, or of the one it wraps, whose images are to be kept in memory."""
    pipeline = getattr(dataset, 'pipeline', None)
    if isinstance(pipeline, Compose):
        views = (step for step in pipeline.transforms if isinstance(step, RandomViews))
        return next((step for step in views if step.edge is not None), None)
    inner = vars(dataset).get('dataset')
    return None if inner is None else step_in_memory(inner)


def memory_of(images: int, edge: int) -> int:
    """Bytes that so many images take."""
    return images * (3 * edge**2 + 8)


def _shared(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Zeros that forked processes share; pages are taken when they are first written."""
    count = int(np.prod(shape))
    memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize))
    return np.frombuffer(memory, dtype, count).reshape(shape)
