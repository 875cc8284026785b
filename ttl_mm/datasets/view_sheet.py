"""A picture of images and their views, as training hands them to the network."""

from collections.abc import Sequence

import numpy as np
from torch.utils.data import Dataset

from ttl_mm.datasets.bands import decode_to_look_at, picture
from ttl_mm.datasets.picture_grid import Tile, fit, picture_grid
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_samples import TrainSamples
from ttl_mm.datasets.views import as_bgr
from ttl_mm.errors import UserError


def view_sheet(
    dataset: Dataset,
    images: int = 6,
    epochs: int = 2,
    seed: int = 0,
    height: int = 160,
    rgb: bool = False,
) -> np.ndarray:
    """Draw evenly spaced images of a dataset, each with its views in the first epochs.

    Args:
        dataset: A dataset for training, as described in docs/data.md, with ``get_data_info``.
        images: Number of rows.
        epochs: How many epochs are shown.
        seed: Seed of the run.
        height: Pixels of a row. Views keep their relative sizes, the largest gets this height.
        rgb: Whether the arrays of the dataset are RGB and not BGR.

    Returns:
        (H, W, 3) uint8, BGR.
    """
    samples = TrainSamples(dataset)
    chosen = np.unique(np.linspace(0, len(samples) - 1, images).round().astype(int)).tolist()
    rows: list[list[Tile]] = []
    for index in chosen:
        row = [Tile(fit(image_of(dataset, index, rgb), height, max_width=2 * height), 'image')]
        for epoch in range(epochs):
            views = views_of(samples, SampleIndex(index, epoch, seed), rgb)
            scale = height / max(view.shape[0] for view in views)
            for i, view in enumerate(views, 1):
                resized = fit(view, max(1, round(scale * view.shape[0])))
                row.append(Tile(resized, f'epoch {epoch + 1}, view {i}'))
        rows.append(row if not rows else [tile._replace(caption='') for tile in row])
    return picture_grid(rows)


def image_of(dataset: Dataset, index: int, rgb: bool = False) -> np.ndarray:
    """The image as stored, (H, W, 3) BGR."""
    if not hasattr(dataset, 'get_data_info'):
        raise UserError(
            f'{type(dataset).__name__} has no get_data_info, so its images cannot be shown beside '
            'their views: see "Your own dataset" in docs/data.md.'
        )
    info = dataset.get_data_info(index)
    return as_bgr(info['img'], rgb) if 'img' in info else decode_to_look_at(info['img_path'])


def views_of(samples: TrainSamples, index: SampleIndex, rgb: bool = False) -> list[np.ndarray]:
    """The views of an image in one epoch, (H, W, 3) BGR each, exactly as in training.

    Views of other than three channels show each of them, side by side.
    """
    inputs = samples[index]['inputs']
    views = inputs if isinstance(inputs, Sequence) else [inputs]
    bgr = [view.flip(0) if rgb else view for view in views]
    arrays = [view.permute(1, 2, 0).contiguous().numpy() for view in bgr]
    return [array if array.dtype == np.uint8 else picture(array) for array in arrays]
