import tracemalloc
from itertools import islice
from unittest import mock

import pytest

from ttl_mm.datasets.permutation import permuted
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


def test_seek_leaves_out_the_beginning_of_one_iteration():
    whole = list(sampler(10_000, epoch=2))
    for start in (0, 1, CHUNK - 1, CHUNK, 9999, 10_000):
        resumed = sampler(10_000, epoch=2)
        resumed.seek(start)
        assert list(resumed) == whole[start:]
        assert list(resumed) == whole


def test_a_jump_in_thirty_million_images_computes_one_chunk(monkeypatch):
    counted = mock.Mock(wraps=permuted)
    monkeypatch.setattr('ttl_mm.datasets.sampler.permuted', counted)
    tracemalloc.start()
    made = sampler(30_000_000)
    made.seek(29_000_000)
    assert len(list(islice(made, 100))) == 100
    assert [len(call.args[0]) for call in counted.call_args_list] == [CHUNK]
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
