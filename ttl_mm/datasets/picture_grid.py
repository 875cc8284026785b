"""Rows of captioned images as one picture."""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

GAP = 6  # pixels between two images and around the grid
FRAME = 3  # width of a frame
FONT_SIZE, CAPTION = 11, 16  # pixels of the letters, and of a line of captions
INK = (60, 60, 60)


class Tile(NamedTuple):
    """An image of a grid.

    Args:
        image: (H, W, 3) uint8.
        caption: A short text above the image.
        color: Of the caption and of a frame around the image; None draws no frame.
    """

    image: np.ndarray
    caption: str = ''
    color: tuple[int, int, int] | None = None


def picture_grid(rows: Sequence[Sequence[Tile]]) -> np.ndarray:
    """Draw rows of images on white: (H, W, 3) uint8.

    A column is as wide as its widest image or caption, a row as high as its highest image and, if
    it has any captions, their line. Images, colors and the result share one channel order.
    """
    font = ImageFont.load_default(FONT_SIZE)
    widths = [
        max(max(_size(tile)[0], math.ceil(font.getlength(tile.caption))) for tile in column if tile)
        for column in zip_longest(*rows)
    ]
    lines = [CAPTION if any(tile.caption for tile in row) else 0 for row in rows]
    heights = [line + max(_size(tile)[1] for tile in row) for line, row in zip(lines, rows)]
    lefts = np.cumsum([GAP, *(width + GAP for width in widths)]).tolist()
    tops = np.cumsum([GAP, *(height + GAP for height in heights)]).tolist()
    picture = Image.new('RGB', (lefts[-1], tops[-1]), 'white')
    draw = ImageDraw.Draw(picture)
    for row, top, line in zip(rows, tops, lines):
        for tile, left in zip(row, lefts):
            draw.text((left, top), tile.caption, fill=tile.color or INK, font=font)
            framed = Image.new('RGB', _size(tile), tile.color or 'white')
            framed.paste(Image.fromarray(tile.image), (FRAME, FRAME))
            picture.paste(framed, (left, top + line))
    return np.array(picture)


def _size(tile: Tile) -> tuple[int, int]:
    """Width and height of an image with its frame, or the space for one."""
    height, width = tile.image.shape[:2]
    return width + 2 * FRAME, height + 2 * FRAME


def fit(image: np.ndarray, height: int, max_width: float = math.inf) -> np.ndarray:
    """Resize to a height, or to less if the width would exceed its limit."""
    scale = min(height / image.shape[0], max_width / image.shape[1])
    size = [max(1, round(scale * side)) for side in (image.shape[1], image.shape[0])]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST)
