"""Windows: every image once, shuffled among its window, archives in a new order each epoch."""

import numpy as np
import pytest

from ttl_mm.datasets.epoch_order import EpochOrder, archives_of

SIZES = [7, 1, 12, 5, 9, 3, 8, 15]  # images of each archive
NAMES = [f'{shard:03}.tar/{i}.jpg' for shard, size in enumerate(SIZES) for i in range(size)]


def shard_of(images: np.ndarray) -> list[str]:
    return [NAMES[i][:3] for i in images.tolist()]


def order(window: int, **kwargs) -> EpochOrder:
    return EpochOrder(len(NAMES), window=window, archives=archives_of(NAMES), **kwargs)


def epoch(window: int, number: int = 1, seed: int = 5) -> np.ndarray:
    return order(window).at(np.arange(len(NAMES)), seed, number)


@pytest.mark.parametrize('window', [1, 9, 16, 30, len(NAMES) - 1])
@pytest.mark.parametrize('number', [0, 1])
def test_every_image_comes_once_and_any_part_without_the_rest(window, number):
    whole = epoch(window, number)
    assert sorted(whole.tolist()) == list(range(len(NAMES)))
    places = np.array([59, 3, 30, 31, 3])
    assert order(window).at(places, 5, number).tolist() == whole[places].tolist()


def test_a_window_has_whole_archives_and_as_many_as_fit():
    windows = order(16).windows(5, 1)
    sizes = np.diff(windows.starts)
    assert sizes.sum() == len(NAMES)
    assert (sizes <= 16).all()
    found = epoch(16)
    seen: set[str] = set()
    for w, (start, stop) in enumerate(zip(windows.starts, windows.starts[1:])):
        shards = set(shard_of(found[start:stop]))
        assert not shards & seen
        assert sum(SIZES[int(shard)] for shard in shards) == stop - start
        if stop < len(NAMES):
            following = SIZES[windows.archives[windows.first[w + 1]]]
            assert sizes[w] + following > 16
        seen |= shards


def test_a_window_of_all_is_one_of_many_orders_of_all():
    """Each of two images comes first in half of the epochs, also of two in one archive."""
    first = [epoch(59, number).tolist() for number in range(1, 400)]
    for one, other in ((0, 59), (8, 9), (20, 40)):
        share = np.mean([order.index(one) < order.index(other) for order in first])
        assert abs(share - 0.5) < 0.1


def test_archives_and_images_come_in_another_order_each_epoch_and_seed():
    assert shard_of(epoch(1, 1)) != shard_of(epoch(1, 2))
    assert epoch(30, 1).tolist() != epoch(30, 2).tolist()
    assert epoch(30, 1).tolist() != epoch(30, 1, seed=6).tolist()
    inside = epoch(1)[:3]
    assert inside.tolist() != sorted(inside.tolist())


def test_the_first_windows_of_a_run_are_small():
    names = [f'{shard}.tar/{i}' for shard in range(100) for i in range(10)]
    made = EpochOrder(1000, window=320, archives=archives_of(names))
    assert np.diff(made.windows(0, 0).starts).tolist() == [20, 40, 80, 160, 320, 320, 60]
    assert np.diff(made.windows(0, 1).starts).tolist() == [320, 320, 320, 40]


def test_without_a_window_the_order_is_that_of_images_that_are_files():
    places = np.arange(len(NAMES))
    plain = EpochOrder(len(NAMES)).at(places, 5, 1)
    assert order(0).at(places, 5, 1).tolist() == plain.tolist()
    assert order(9, shuffle=False).at(places, 5, 1).tolist() == places.tolist()


def test_archives_are_found_by_names_and_must_be_together():
    found = archives_of(NAMES)
    assert found.names == [f'{i:03}.tar' for i in range(8)]
    assert np.diff(found.starts).tolist() == SIZES
    assert archives_of([*NAMES, 'x.jpg']) is None
    nested = archives_of(['a/x.tar/1.jpg', 'a/x.tar2/1.jpg.ZIP/1', 'b.zip/x.tar/2'])
    assert nested.names == ['a/x.tar', 'a/x.tar2/1.jpg.ZIP', 'b.zip']
    assert not found.apart
    assert archives_of([*NAMES, NAMES[0]]).apart == '000.tar'
