import tracemalloc
from itertools import islice

import numpy as np
import pytest

from ttl_mm.datasets.sampler import CHUNK, EpochSampler
from ttl_mm.errors import UserError


def sampler(images, epoch=0, rank=0, world_size=1, **kwargs):
    made = EpochSampler(range(images), seed=5, **kwargs)
    made.rank, made.world_size = rank, world_size
    made.set_epoch(epoch)
    return made


def test_an_epoch_has_every_image_once_in_an_order_of_its_own():
    assert sorted(sampler(1000)) == list(range(1000))
    assert list(sampler(6, shuffle=False)) == [0, 1, 2, 3, 4, 5]
    assert list(sampler(50, epoch=1)) != list(sampler(50, epoch=2))
    assert list(sampler(50, epoch=1)) == list(sampler(50, epoch=1))
    index = next(iter(sampler(20, epoch=3)))
    assert (index.epoch, index.seed) == (3, 5)
    with pytest.raises(UserError, match='no images'):
        EpochSampler([], seed=0)
    parts = [list(sampler(10, rank=rank, world_size=4)) for rank in range(4)]
    assert [len(part) for part in parts] == [3, 3, 3, 3]
    assert set().union(*parts) == set(range(10))
    dealt = [index for turn in zip(*parts) for index in turn]
    assert dealt[:10] == list(sampler(10))


@pytest.mark.parametrize('window', [0, -3, 2.5, True])
def test_a_window_is_a_number_of_images_in_archives(window):
    with pytest.raises(UserError, match='a number of images, 1 or more'):
        sampler(10, window=window)
    with pytest.raises(UserError, match='only images in archives have windows'):
        sampler(10, window=9)
    assert list(sampler(10, window=10)) == list(sampler(10))


def test_any_part_of_the_order_without_the_rest():
    whole = list(sampler(10_000, epoch=2))
    for start in (0, 1, CHUNK - 1, CHUNK, 9999):
        assert sampler(10_000, epoch=2).at(np.arange(start, 10_000)) == whole[start:]


def test_a_jump_in_thirty_million_images_takes_no_memory():
    tracemalloc.start()
    assert len(sampler(30_000_000).at(np.arange(29_000_000, 29_000_100))) == 100
    assert len(list(islice(sampler(30_000_000), 100))) == 100
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
