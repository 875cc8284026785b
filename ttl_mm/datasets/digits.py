"""The handwritten digits that scikit-learn ships: real images without a download."""

from typing import ClassVar

import numpy as np
from mmpretrain.datasets import BaseDataset

from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS

NUM_TRAIN = 1200
SPLITS = ('train', 'test')


@DATASETS.register_module()
class Digits(BaseDataset):
    """1,797 digits of 8 x 8 pixels in a fixed order: 1,200 to train on, 597 to test on.

    Args:
        split: 'train' or 'test'.
        **kwargs: As for mmpretrain's BaseDataset.
    """

    METAINFO: ClassVar = {'classes': tuple(str(digit) for digit in range(10))}

    def __init__(self, split: str = 'train', **kwargs):
        self.split = split
        super().__init__(ann_file='', **kwargs)

    def load_data_list(self) -> list[dict]:
        """Load images as (8, 8, 3) uint8, gray in all three channels, and their labels."""
        digits, labels = load_split(self.split)
        gray = np.round(digits * 255).astype(np.uint8)  # (N, 8, 8)
        images = np.repeat(gray[..., None], 3, axis=3)
        return [{'img': img, 'gt_label': label} for img, label in zip(images, labels)]


def load_split(split: str) -> tuple[np.ndarray, list[int]]:
    """The digits of 'train' or 'test', (N, 8, 8) from 0 to 1, and their labels."""
    if split not in SPLITS:
        raise UserError(f'split={split!r}: the digits have a train and a test split.')
    from sklearn.datasets import load_digits

    digits = load_digits()
    # RandomState and not a Generator: its stream is frozen across NumPy versions
    order = np.random.RandomState(0).permutation(len(digits.target))
    order = order[:NUM_TRAIN] if split == 'train' else order[NUM_TRAIN:]
    return digits.images[order] / 16, digits.target[order].tolist()
