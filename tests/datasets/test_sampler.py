import tracemalloc
from itertools import islice

import pytest

from ttl_mm.datasets.permutation import permuted
from ttl_mm.datasets.sampler import CHUNK, EpochSampler
from ttl_mm.errors import UserError


def sampler(images, epoch=0, rank=0, world_size=1, **kwargs):
    made = EpochSampler(range(images), seed=5, **kwargs)
    made.rank, made.world_size = rank, world_size
    made.set_epoch(epoch)
    return made


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


def test_seek_leaves_out_the_beginning():
    whole = list(sampler(10_000, epoch=2))
    for start in (0, 1, CHUNK - 1, CHUNK, 9999, 10_000):
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


def test_a_jump_in_thirty_million_images_computes_one_chunk(monkeypatch):
    computed = []

    def counting(positions, n, seed):
        computed.append(len(positions))
        return permuted(positions, n, seed)

    monkeypatch.setattr('ttl_mm.datasets.sampler.permuted', counting)
    tracemalloc.start()
    made = sampler(30_000_000)
    made.seek(29_000_000)
    assert len(list(islice(made, 100))) == 100
    assert computed == [CHUNK]
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
