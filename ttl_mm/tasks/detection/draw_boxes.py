"""Boxes drawn into images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

# Okabe and Ito: distinguishable for color-blind readers
COLORS = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
)


class Label(NamedTuple):
    """A box as extent, its class by number, and the words above it."""

    box: Sequence[float]
    number: int
    words: str


def draw_boxes(image: np.ndarray, labels: Sequence[Label]) -> np.ndarray:
    """A copy of an RGB image (H, W, 3) with boxes and words, a color for every class."""
    picture = Image.fromarray(np.ascontiguousarray(image))
    draw = ImageDraw.Draw(picture)
    line = max(2, round(min(image.shape[:2]) / 150))
    font = ImageFont.load_default(max(10, round(min(image.shape[:2]) / 25)))
    for label in labels:
        color = COLORS[label.number % len(COLORS)]
        x1, y1, x2, y2 = (float(value) for value in label.box)
        draw.rectangle((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=color, width=line)
        left, top, right, bottom = draw.textbbox((x1, y1), label.words, font=font)
        draw.rectangle((left, top, right, bottom), fill=color)
        draw.text((x1, y1), label.words, fill='white', font=font)
    return np.array(picture)
