"""A part of a labeled dataset, chosen by index or class by class."""

from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS


class Part(Dataset):
    """The samples of a labeled dataset that have the given indices."""

    def __init__(self, dataset: Any, indices: np.ndarray) -> None:
        self.dataset = dataset
        self.indices = indices
        self.metainfo = dataset.metainfo
        self.data_root = getattr(dataset, 'data_root', None)

    def __len__(self) -> int:
        return len(self.indices)

    def get_data_info(self, index: int) -> dict:
        return self.dataset.get_data_info(int(self.indices[index]))

    def get_gt_labels(self) -> np.ndarray:
        return np.asarray(self.dataset.get_gt_labels())[self.indices]

    def __getitem__(self, index: int):
        inner = int(self.indices[index])
        return self.dataset[index.at(inner) if isinstance(index, SampleIndex) else inner]


@DATASETS.register_module()
class Fraction(Part):
    """A fraction of a labeled dataset, drawn class by class, the same on every machine.

    For a published list, such as the 1 % of ImageNet that SimCLR drew, use ``list_file`` of
    :class:`ttl_mm.datasets.ImageFolder` instead.

    Args:
        dataset: The whole dataset, or its config.
        fraction: Above 0 and at most 1; at least one image of every class is taken.
        seed: Selects the draw.
    """

    def __init__(self, dataset: Any, fraction: float, seed: int = 0) -> None:
        if not 0 < fraction <= 1:
            raise UserError(f'fraction={fraction}: it must be above 0 and at most 1.')
        whole = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        super().__init__(whole, draw_fraction(whole.get_gt_labels(), fraction, seed))


def draw_fraction(labels, fraction: float, seed: int) -> np.ndarray:
    """Sorted indices of max(1, round(fraction x count)) samples of every class."""
    labels = np.asarray(labels)
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        # RandomState and not a Generator: its stream is frozen across NumPy versions
        order = np.random.RandomState((seed, label)).permutation(members)
        chosen.append(order[: max(1, round(fraction * len(members)))])
    return np.sort(np.concatenate(chosen))
