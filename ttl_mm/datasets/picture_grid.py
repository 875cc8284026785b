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
    """Draw rows of images on white.

    A column is as wide as its widest image or caption, a row as high as its highest image and, if
    it has any captions, their line. Images, colors and the result share one channel order.

    Returns:
        (H, W, 3) uint8.
    """
    font = ImageFont.load_default(FONT_SIZE)
    widths = [
        max(max(_width(tile), math.ceil(font.getlength(tile.caption))) for tile in column if tile)
        for column in zip_longest(*rows)
    ]
    lines = [CAPTION if any(tile.caption for tile in row) else 0 for row in rows]
    heights = [line + max(map(_height, row)) for line, row in zip(lines, rows)]
    lefts = np.cumsum([GAP, *(width + GAP for width in widths)]).tolist()
    tops = np.cumsum([GAP, *(height + GAP for height in heights)]).tolist()
    picture = Image.new('RGB', (lefts[-1], tops[-1]), 'white')
    for row, top, line in zip(rows, tops, lines):
        for tile, left in zip(row, lefts):
            _draw_tile(picture, tile, left, top, line, font)
    return np.array(picture)


def _draw_tile(
    picture: Image.Image, tile: Tile, left: int, top: int, line: int, font: ImageFont.FreeTypeFont
) -> None:
    """The caption at (left, top), the image ``line`` pixels below it, inside its frame."""
    draw = ImageDraw.Draw(picture)
    draw.text((left, top), tile.caption, fill=tile.color or INK, font=font)
    if tile.color is not None:
        corner = left + _width(tile) - 1, top + line + _height(tile) - 1
        draw.rectangle((left, top + line, *corner), fill=tile.color)
    picture.paste(Image.fromarray(tile.image), (left + FRAME, top + line + FRAME))


def _width(tile: Tile) -> int:
    return tile.image.shape[1] + 2 * FRAME


def _height(tile: Tile) -> int:
    return tile.image.shape[0] + 2 * FRAME


def fit(image: np.ndarray, height: int, max_width: int | None = None) -> np.ndarray:
    """Resize to a height, or to less if the width would exceed its limit."""
    scale = height / image.shape[0]
    if max_width is not None:
        scale = min(scale, max_width / image.shape[1])
    size = [max(1, round(scale * side)) for side in (image.shape[1], image.shape[0])]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST)
