"""Exact positions with mmdet's batches of one orientation."""

import ttl_mm.registry  # noqa: F401  isort: skip

import pytest
from mmdet.datasets.samplers import AspectRatioBatchSampler

from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.datasets.train_loader import EpochBatches


class Sizes:
    """Images of which every third is upright."""

    def __len__(self) -> int:
        return 23

    def get_data_info(self, index: int) -> dict:
        return dict(width=10, height=20 if index % 3 == 0 else 5)


@pytest.mark.parametrize('start', [1, 5, 10])
def test_grouped_batches_continue_where_they_were(start: int) -> None:
    """Groups are not slices of the sampler's order, so there is no place to jump to."""

    def batches(first: int) -> list:
        sampler = AspectRatioBatchSampler(EpochSampler(Sizes(), seed=3), batch_size=2)
        batches = EpochBatches(sampler, seed=3)
        batches.set_position(epoch=2, start=first)
        return [[int(index) for index in batch] for batch in batches]

    whole = batches(0)
    assert sorted(index for batch in whole for index in batch) == list(range(23))
    assert batches(start) == whole[start:]
