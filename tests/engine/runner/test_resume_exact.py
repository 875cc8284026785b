"""A run that was interrupted after every single step equals one that was not."""

import pytest

from tests.helpers.toy_run import EPOCHS, ITERATIONS, OUR_VIEWS, STOCK_VIEWS, STOP, assert_same_run
from ttl_mm.engine.state.exit_codes import PREEMPTED


@pytest.fixture
def interrupt(tmp_path, toy):
    """Train once in one go, and once with a preemption after each of ``points``: no difference."""

    def compare(points=range(1, 20), ranks=1, **settings):
        whole, parts = f'whole_{points[0]}', f'parts_{points[0]}'
        settings.update(ranks=ranks, accumulation=3)
        assert toy(whole, **settings) == [0] * ranks
        for at in points:
            assert toy(parts, more=STOP.format(at), **settings) == [PREEMPTED] * ranks, at
        assert toy(parts, **settings) == [0] * ranks
        assert_same_run(tmp_path / parts, tmp_path / whole, ranks)

    return compare


def test_every_step_mid_epoch_and_mid_accumulation(interrupt):
    interrupt()


def test_iteration_loop_with_workers(interrupt):
    interrupt([4, 5, 11], loop=ITERATIONS, workers=2)


@pytest.mark.parametrize('images', [44], indirect=True)
def test_two_ranks_with_workers(interrupt):
    interrupt([5, 7], ranks=2, workers=1)


@pytest.mark.faults
@pytest.mark.parametrize('views', [STOCK_VIEWS, OUR_VIEWS], ids=['stock', 'ours'])
@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS], ids=['epochs', 'iterations'])
@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize(('ranks', 'images'), [(1, 22), (2, 44)], indirect=['images'])
def test_every_step_of_every_kind_of_run(interrupt, ranks, workers, loop, views):
    # two ranks count the vote one step after the signal: every other step, odd and even in turn
    for points in [range(1, 20)] if ranks == 1 else [range(1, 19, 2), range(2, 19, 2)]:
        interrupt(points, ranks, workers=workers, loop=loop, pipeline=views)
