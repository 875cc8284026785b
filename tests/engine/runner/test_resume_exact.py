"""A run that was interrupted after every single step equals one that was not."""

import signal

import pytest

from tests.helpers.toy_run import (
    EPOCHS,
    ITERATIONS,
    OUR_VIEWS,
    STOCK_VIEWS,
    assert_same_run,
    curve,
    make_images,
    run,
    write_config,
)
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.state.exit_codes import PREEMPTED

STOP = "\ncustom_hooks = [dict(type='SignalHook', at={at})]\n"


def interrupted_everywhere(tmp_path, ranks=1, points=range(1, 20), **settings):
    """Train once in one go, and once with a preemption after each of ``points``."""
    images = make_images(tmp_path / 'images', 22 * ranks)
    plain = write_config(tmp_path / 'plain.py', images, **settings)
    assert run(plain, tmp_path / 'whole', ranks) == [0] * ranks
    for at in points:
        config = write_config(tmp_path / 'stop.py', images, more=STOP.format(at=at), **settings)
        assert run(config, tmp_path / 'parts', ranks) == [PREEMPTED] * ranks, at
    assert run(plain, tmp_path / 'parts', ranks) == [0] * ranks
    assert_same_run(tmp_path / 'parts', tmp_path / 'whole', ranks)


def test_every_step_mid_epoch_and_mid_accumulation(tmp_path):
    interrupted_everywhere(tmp_path, accumulation=3)


def test_iteration_loop_with_workers(tmp_path):
    interrupted_everywhere(tmp_path, points=[4, 5, 11], loop=ITERATIONS, workers=2, accumulation=3)


def test_two_ranks_with_workers(tmp_path):
    interrupted_everywhere(tmp_path, ranks=2, points=[5, 7], workers=1, accumulation=3)


@pytest.mark.faults
@pytest.mark.parametrize('views', [STOCK_VIEWS, OUR_VIEWS], ids=['stock', 'ours'])
@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS], ids=['epochs', 'iterations'])
@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('ranks', [1, 2])
def test_every_step_of_every_kind_of_run(tmp_path, ranks, workers, loop, views):
    # two ranks count the vote one step after the signal: every other step, odd and even in turn
    for points in [range(1, 20)] if ranks == 1 else [range(1, 19, 2), range(2, 19, 2)]:
        interrupted_everywhere(
            tmp_path / f'from_{points[0]}',
            ranks, points, loop=loop, workers=workers, accumulation=3, pipeline=views,
        )  # fmt: skip


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize('rank', [0, 1])
def test_a_signal_to_any_rank_saves_on_all(tmp_path, number, rank):
    images = make_images(tmp_path / 'images', 44)
    stop = f"\ncustom_hooks = [dict(type='SignalHook', at=7, number={int(number)}, rank={rank})]\n"
    config = write_config(tmp_path / 'config.py', images, more=stop)
    work = tmp_path / 'work'
    assert run(config, work, ranks=2) == [PREEMPTED, PREEMPTED]
    (path, seal), *_ = sealed_files(work)
    assert (path.name, seal.iteration) == ('iter_8.pth', 8)  # the vote is counted one step later
    assert sorted(curve(work, rank=1)) == list(range(1, 9))
