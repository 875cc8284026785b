"""Digits on photographs, made from what scikit-learn ships: a task at which pixels fail."""

from typing import ClassVar

import cv2
import numpy as np
from mmpretrain.datasets import BaseDataset

from ttl_mm.datasets.digits import load_split
from ttl_mm.registry import DATASETS

SPLITS = ('train', 'test')
SIZE = 32  # pixels of an image
PIECE = (48, 128)  # edge of the piece of a photograph behind the digit, in pixels
SHADE = 0.35  # brightness that a photograph keeps; in full light it is learned, not the digit
HEIGHT = (15, 22)  # of a digit
TURN = 15.0  # largest rotation, in degrees
SLANT = 0.3  # largest shift of the top against the foot, as a share of the height
LIGHT = 160.0  # least gray level of the digit's color, of 255
GRAY_BGR = np.array([0.114, 0.587, 0.299])


@DATASETS.register_module()
class DigitScenes(BaseDataset):
    """Handwritten digits of random place, size, slant and color on dark pieces of two photographs.

    Image i is a function of (seed, split, i). The digits of the test images are those of
    :class:`ttl_mm.Digits`'s test split, which no training image shows.

    Args:
        split: 'train' or 'test'.
        num: How many images.
        seed: Another seed gives other images.
        **kwargs: As for mmpretrain's BaseDataset.
    """

    METAINFO: ClassVar = {'classes': tuple(str(digit) for digit in range(10))}

    def __init__(self, split: str = 'train', num: int = 4000, seed: int = 0, **kwargs):
        self.split, self.num, self.seed = split, num, seed
        super().__init__(ann_file='', **kwargs)

    def load_data_list(self) -> list[dict]:
        """Draw all images, (32, 32, 3) uint8 in BGR; this takes less than a second."""
        from sklearn.datasets import load_sample_images

        digits, labels = load_split(self.split)
        photos = [photo[..., ::-1] for photo in load_sample_images().images]  # BGR
        found = []
        for i in range(self.num):
            rng = np.random.default_rng((self.seed, SPLITS.index(self.split), i))
            which = rng.integers(len(digits))
            piece = draw_piece(photos[rng.integers(len(photos))], rng)
            found.append({'img': draw_digit(piece, digits[which], rng), 'gt_label': labels[which]})
        return found


def draw_piece(photo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random square of a photograph, darkened, as (32, 32, 3)."""
    edge = int(rng.integers(*PIECE))
    top, left = (int(rng.integers(length - edge)) for length in photo.shape[:2])
    square = np.ascontiguousarray(photo[top : top + edge, left : left + edge])
    return cv2.resize(square, (SIZE, SIZE), interpolation=cv2.INTER_AREA) * SHADE


def draw_digit(piece: np.ndarray, digit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Paint a digit (8, 8), from 0 to 1, onto ``piece``, somewhere and somehow."""
    height = rng.uniform(*HEIGHT)
    turn, slant = np.deg2rad(rng.uniform(-TURN, TURN)), rng.uniform(-SLANT, SLANT)
    room = (SIZE - height) / 2
    center = SIZE / 2 + rng.uniform(-room, room, size=2)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    linear = rotation @ np.array([[1, slant], [0, 1]]) * height / len(digit)
    shift = center - linear @ np.full(2, (len(digit) - 1) / 2)
    matrix = np.column_stack([linear, shift])  # from pixels of the digit to pixels of the piece
    ink = cv2.warpAffine(digit, matrix, (SIZE, SIZE), flags=cv2.INTER_CUBIC).clip(0, 1)[..., None]
    painted = (1 - ink) * piece + ink * draw_color(rng)
    return np.round(painted).astype(np.uint8)


def draw_color(rng: np.random.Generator) -> np.ndarray:
    """A light color, in BGR."""
    while True:
        color = rng.uniform(0, 255, size=3)
        if color @ GRAY_BGR > LIGHT:
            return color
