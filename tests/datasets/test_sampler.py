"""Every image once an epoch; any part of the order at once; the same for any number of ranks."""

import time
import tracemalloc
from itertools import islice

import numpy as np
import pytest
from scipy.stats import chisquare

from ttl_mm.datasets.permutation import permuted
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.errors import UserError


def sampler(images, epoch=0, rank=0, world_size=1, **kwargs):
    made = EpochSampler(range(images), seed=5, **kwargs)
    made.rank, made.world_size = rank, world_size
    made.set_epoch(epoch)
    return made


@pytest.mark.parametrize('n', [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097])
def test_is_a_permutation(n):
    assert sorted(permuted(np.arange(n), n, (0, 1))) == list(range(n))


def test_any_part_equals_the_whole():
    whole = permuted(np.arange(1000), 1000, (7,))
    assert (permuted(np.array([3, 999, 500]), 1000, (7,)) == whole[[3, 999, 500]]).all()


def test_looks_random():
    """Where an image lands, and which image follows it, are uniform over 3,000 seeds."""
    first = np.stack([permuted(np.arange(2), 10, (seed,)) for seed in range(3000)])
    assert chisquare(np.bincount(first[:, 0], minlength=10)).pvalue > 1e-3
    steps = (first[:, 1] - first[:, 0]) % 10
    assert chisquare(np.bincount(steps, minlength=10)[1:]).pvalue > 1e-3


def test_an_epoch_has_every_image_once():
    assert sorted(sampler(1000)) == list(range(1000))


def test_epochs_differ_and_can_be_repeated():
    assert list(sampler(50, epoch=1)) != list(sampler(50, epoch=2))
    assert list(sampler(50, epoch=1)) == list(sampler(50, epoch=1))


def test_ranks_share_the_epoch_and_take_equally_many():
    parts = [list(sampler(10, rank=rank, world_size=4)) for rank in range(4)]
    assert [len(part) for part in parts] == [3, 3, 3, 3]
    assert set().union(*parts) == set(range(10))
    dealt = [index for turn in zip(*parts) for index in turn]
    assert dealt[:10] == list(sampler(10))


@pytest.mark.parametrize('start', [0, 1, 4095, 4096, 9999, 10_000])
def test_seek_leaves_out_the_beginning(start):
    whole = list(sampler(10_000, epoch=2))
    resumed = sampler(10_000, epoch=2)
    resumed.seek(start)
    assert list(resumed) == whole[start:]


def test_seek_holds_for_one_iteration():
    resumed = sampler(20)
    resumed.seek(15)
    list(resumed)
    assert len(list(resumed)) == 20


def test_indices_know_their_epoch_and_seed():
    index = next(iter(sampler(20, epoch=3)))
    assert (index.epoch, index.seed) == (3, 5)


def test_in_order_without_shuffle():
    assert list(sampler(6, shuffle=False)) == [0, 1, 2, 3, 4, 5]


def test_no_images_is_an_error():
    with pytest.raises(UserError, match='no images'):
        EpochSampler([], seed=0)


def test_thirty_million_images_start_at_once_and_need_no_list():
    tracemalloc.start()
    began = time.process_time()
    made = sampler(30_000_000)
    made.seek(29_000_000)
    assert len(list(islice(made, 100))) == 100
    assert time.process_time() - began < 1
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
