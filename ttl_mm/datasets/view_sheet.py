"""A picture of images and their views, as the data path hands them to the network."""

from collections.abc import Sequence

import cv2
import numpy as np
from torch.utils.data import Dataset

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.seeding import seeded_for

GAP, TITLE, WHITE, INK = 4, 18, 255, (60, 60, 60)


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
        dataset: Has ``get_data_info`` and packs ``inputs``, as those of mmengine and of ours do.
        images: Number of rows.
        epochs: How often the views of each image are drawn.
        seed: Seed of the run.
        height: Pixels of a row. Views keep their relative sizes, the largest gets this height.
        rgb: Whether the arrays of the dataset are RGB and not BGR.

    Returns:
        A BGR picture.
    """
    chosen = np.unique(np.linspace(0, len(dataset) - 1, images).round().astype(int)).tolist()
    rows, titles = [], ['image']
    for index in chosen:
        row = [fit(image_of(dataset, index, rgb), height, max_width=2 * height)]
        for epoch in range(epochs):
            views = views_of(dataset, SampleIndex(index, epoch, seed), rgb)
            scale = height / max(view.shape[0] for view in views)
            row += [fit(view, max(1, round(scale * view.shape[0]))) for view in views]
            if index == chosen[0]:
                titles += [f'epoch {epoch + 1} view {i + 1}' for i in range(len(views))]
        rows.append(row)
    return tile(rows, titles, height)


def image_of(dataset: Dataset, index: int, rgb: bool = False) -> np.ndarray:
    """The image as stored, (H, W, 3) BGR."""
    info = dataset.get_data_info(index)
    if 'img' not in info:
        return decode_image(info['img_path'])
    return info['img'][..., ::-1].copy() if rgb else info['img']


def views_of(dataset: Dataset, index: SampleIndex, rgb: bool = False) -> list[np.ndarray]:
    """The views of an image in one epoch, (H, W, 3) BGR each, exactly as in training."""
    with seeded_for(index):
        inputs = dataset[index]['inputs']
    views = inputs if isinstance(inputs, Sequence) else [inputs]
    bgr = [view.flip(0) if rgb else view for view in views]
    return [view.permute(1, 2, 0).contiguous().numpy() for view in bgr]


def fit(image: np.ndarray, height: int, max_width: int | None = None) -> np.ndarray:
    """Resize to a height, or less if the width would exceed its limit."""
    scale = height / image.shape[0]
    if max_width is not None:
        scale = min(scale, max_width / image.shape[1])
    size = [max(1, round(scale * side)) for side in (image.shape[1], image.shape[0])]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def tile(rows: list[list[np.ndarray]], titles: list[str], height: int) -> np.ndarray:
    """Put pictures into a grid with a title above each column."""
    needed = [cv2.getTextSize(title, cv2.FONT_HERSHEY_PLAIN, 0.8, 1)[0][0] for title in titles]
    for row in rows:
        needed = [max(width, picture.shape[1]) for width, picture in zip(needed, row)]
    lefts = np.cumsum([GAP] + [width + GAP for width in needed]).tolist()
    sheet = np.full((TITLE + len(rows) * (height + GAP), lefts[-1], 3), WHITE, np.uint8)
    for left, title in zip(lefts, titles):
        cv2.putText(sheet, title, (left, TITLE - 6), cv2.FONT_HERSHEY_PLAIN, 0.8, INK)
    for i, row in enumerate(rows):
        top = TITLE + i * (height + GAP)
        for left, picture in zip(lefts, row):
            sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet
