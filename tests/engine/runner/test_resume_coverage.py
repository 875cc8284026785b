"""Each image once per epoch, also where batch, ranks or data change in the middle of it."""

from collections import Counter

import cv2
import numpy as np
import pytest

from tests.helpers.toy_run import EPOCHS, ITERATIONS, STOP, images_by_epoch, log_file, make_images
from ttl_mm.engine.state.exit_codes import PREEMPTED

WATCH = "default_hooks.update(images=dict(type='ImagesHook'))\n"
BATCH = {'train_dataloader.batch_size': 6}


def assert_each_once(seen, left_out=0):
    assert set(Counter(seen).values()) == {1}, Counter(seen)
    assert len(seen) >= 22 - left_out


# a loop by epochs counts on so that an epoch ends at a multiple of its new length
@pytest.mark.parametrize(('loop', 'next_step'), [(EPOCHS, 5), (ITERATIONS, 8)])
def test_another_batch_size(tmp_path, toy, loop, next_step):
    assert toy(loop=loop, more=WATCH + STOP.format(7)) == [PREEMPTED]
    assert toy(loop=loop, more=WATCH + STOP.format(next_step), cfg_options=BATCH) == [PREEMPTED]
    more = WATCH + 'train_dataloader.update(drop_last=False)\n'
    assert toy(loop=loop, more=more, cfg_options={'train_dataloader.batch_size': 5}) == [0]
    seen = images_by_epoch(tmp_path / 'work')
    assert len(seen[1]) == 22
    for epoch in (0, 1, 2):
        assert_each_once(seen[epoch], left_out=3)


@pytest.mark.parametrize('images', [44], indirect=True)
def test_another_number_of_ranks(tmp_path, toy):
    """Steps of 8 images on two ranks and on one that does the work of both, of 12 on three."""
    for ranks, stop in ((2, 1), (1, 3), (3, 3)):
        assert toy(ranks=ranks, more=WATCH + STOP.format(stop)) == [PREEMPTED] * ranks
    assert toy(more=WATCH) == [0]
    seen = images_by_epoch(tmp_path / 'work')
    assert [len(seen[epoch]) for epoch in range(4)] == [36, 36, 36, 36]
    for names in seen.values():
        assert_each_once(names)


@pytest.mark.parametrize(('loop', 'next_step'), [(EPOCHS, 9), (ITERATIONS, 8)])
def test_images_exchanged_in_the_middle_of_an_epoch(tmp_path, toy, loop, next_step):
    """Equally many before and after; the exchange is noticed, and interrupted once more."""
    own = make_images(tmp_path / 'own')
    data = {'train_dataloader.dataset.data_root': str(own)}
    settings = dict(loop=loop, cfg_options=data, more=WATCH + STOP.format(7))
    assert toy(**settings) == [PREEMPTED]
    work = tmp_path / 'work'
    before = set(images_by_epoch(work)[1])
    unseen = sorted({path.name for path in own.rglob('*.png')} - before)
    removed, added = [*unseen[:3], *sorted(before)[:2]], [f'new_{i}.png' for i in range(5)]
    for old, new in zip(removed, added):
        (path,) = own.rglob(old)
        path.unlink()
        cv2.imwrite(str(path.with_name(new)), np.full((8, 8, 3), 7, np.uint8))
    assert toy(**{**settings, 'more': WATCH + STOP.format(next_step)}) == [PREEMPTED]
    log = log_file(work).read_text()
    assert 'The images have changed since: 5 removed (class_' in log
    assert '5 added, which join at the next epoch' in log
    assert toy(**{**settings, 'more': WATCH}) == [0]
    seen = images_by_epoch(work)
    assert_each_once(seen[1], left_out=3 + 3)
    assert not set(seen[1]) & set(added)
    assert set(seen[1]).isdisjoint(unseen[:3])
    assert set(seen[2]) & set(added)
    assert_each_once(seen[2], left_out=2)
