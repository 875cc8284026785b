"""The handwritten digits that scikit-learn ships: real images without a download."""

from typing import ClassVar

import numpy as np
from mmpretrain.datasets import BaseDataset

from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS

NUM_TRAIN = 1200


@DATASETS.register_module()
class Digits(BaseDataset):
    """1,797 digits of 8 x 8 pixels in a fixed order: 1,200 to train on, 597 to test on.

    Args:
        split: 'train' or 'test'.
        **kwargs: As for mmpretrain's BaseDataset.
    """

    METAINFO: ClassVar = {'classes': tuple(str(digit) for digit in range(10))}

    def __init__(self, split: str = 'train', **kwargs):
        if split not in ('train', 'test'):
            raise UserError(f'split={split!r}: the digits have a train and a test split.')
        self.split = split
        super().__init__(ann_file='', **kwargs)

    def load_data_list(self) -> list[dict]:
        """Load images as (8, 8, 3) uint8, gray in all three channels, and their labels."""
        from sklearn.datasets import load_digits

        digits = load_digits()
        # RandomState and not a Generator: its stream is frozen across NumPy versions
        order = np.random.RandomState(0).permutation(len(digits.target))
        order = order[:NUM_TRAIN] if self.split == 'train' else order[NUM_TRAIN:]
        gray = np.round(digits.images * (255 / 16)).astype(np.uint8)  # (1797, 8, 8), was 0..16
        images = np.repeat(gray[order, :, :, None], 3, axis=3)
        labels = digits.target[order].tolist()
        return [{'img': img, 'gt_label': label} for img, label in zip(images, labels)]
