"""Runs that shuffle window by window go on exactly, whatever has changed in between."""

import signal
from collections import Counter
from functools import partial

import pytest

from tests.helpers.toy_run import (
    ITERATIONS,
    OUR_VIEWS,
    STOP,
    assert_same_run,
    images_by_epoch,
    kill_at,
    log_file,
    make_images,
    run,
    write_config,
)
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.shard_writer import shard_files, split_into_shards, write_shard
from ttl_mm.engine.state.exit_codes import PREEMPTED

EVERY_STEP = "dict(type='ttl_mm.CheckpointHook', interval=1, by_epoch=False, max_keep_ckpts=1)"
WATCH = "default_hooks.update(images=dict(type='ImagesHook'))\n"


@pytest.fixture
def shards(tmp_path):
    """40 images in seven shards."""
    folder, out = make_images(tmp_path / 'folder', 40), tmp_path / 'shards'
    out.mkdir()
    names = list(ImageFolder(str(folder)).names)
    for number, files in enumerate(split_into_shards(shard_files(folder, names), 11_000)):
        write_shard(out / f'{number:03}.tar', files)
    assert len(list(out.glob('*.tar'))) == 7
    return out


@pytest.fixture
def train(tmp_path, shards):
    """A function that trains 20 steps of four images a rank; returns the exit codes."""

    def start(work, window, ranks=1, workers=0, prepare=None, more='', loop=ITERATIONS):
        config = tmp_path / f'{work}.py'
        sampler = f"dict(type='ttl_mm.EpochSampler', window={window})"
        more = f"train_dataloader['sampler'] = {sampler}\n{WATCH}{more}"
        settings = dict(loop=loop, pipeline=OUR_VIEWS, checkpoint=EVERY_STEP, more=more)
        write_config(config, shards, workers=workers, **settings)
        return run(config, tmp_path / work, ranks, prepare)

    return start


def test_a_kill_resumes_to_the_last_bit(tmp_path, train):
    assert train('whole', 12) == [0]
    assert train('killed', 12, workers=1, prepare=partial(kill_at, 13)) == [-signal.SIGKILL]
    assert train('killed', 12, workers=1) == [0]
    assert_same_run(tmp_path / 'killed', tmp_path / 'whole')


def test_other_ranks_and_another_window_in_the_middle_of_an_epoch(tmp_path, train):
    """The epoch that was begun keeps its window, also over a second interruption."""
    for ranks, window, stop in ((2, 12, 2), (1, None, 4), (1, 20, 7)):
        assert train('work', window, ranks, more=STOP.format(stop)) == [PREEMPTED] * ranks
    assert train('work', 20, 2) == [0, 0]
    log = log_file(tmp_path / 'work').read_text()
    assert 'The window to shuffle images in was 12 and is 40 from the next epoch on' in log
    assert 'The window to shuffle images in was 12 and is 20 from the next epoch on' in log
    seen = images_by_epoch(tmp_path / 'work')
    for epoch in range(3):
        assert len(seen[epoch]) == 40
        assert set(Counter(seen[epoch]).values()) == {1}


def test_an_archive_that_is_removed_in_the_middle_of_an_epoch(tmp_path, train, shards):
    assert train('work', 12, more=STOP.format(4)) == [PREEMPTED]
    before = images_by_epoch(tmp_path / 'work')[0]
    assert len(before) == 16
    removed = shards / '003.tar'
    gone = {name.rpartition('/')[2] for name in ImageFolder(str(removed)).names}
    removed.unlink()
    assert train('work', 12) == [0]
    seen = images_by_epoch(tmp_path / 'work')[0]
    assert set(Counter(seen).values()) == {1}
    assert not gone & set(seen[16:])
    assert len(seen) >= 40 - len(gone - set(before)) - 3  # an incomplete step is left out
