"""A run that was interrupted after every single step equals one that was not."""

import pytest

from tests.helpers.toy_run import (
    EPOCHS,
    GROWING_VIEWS,
    ITERATIONS,
    OUR_VIEWS,
    STOCK_VIEWS,
    STOP,
    WITHOUT_TARGET,
    assert_same_run,
)
from ttl_mm.engine.state.exit_codes import PREEMPTED


@pytest.fixture
def interrupt(tmp_path, toy):
    """Train once in one go, and once with a preemption after each of ``points``: no difference."""

    def compare(points=range(1, 20), ranks=1, more='', **settings):
        whole, parts = f'whole_{points[0]}', f'parts_{points[0]}'
        settings.update(ranks=ranks, accumulation=3)
        assert toy(whole, more=more, **settings) == [0] * ranks
        for at in points:
            assert toy(parts, more=more + STOP.format(at), **settings) == [PREEMPTED] * ranks, at
        assert toy(parts, more=more, **settings) == [0] * ranks
        assert_same_run(tmp_path / parts, tmp_path / whole, ranks)

    return compare


def test_every_step_mid_epoch_and_mid_accumulation(interrupt):
    interrupt()


def test_iteration_loop_with_workers(interrupt):
    interrupt([4, 5, 11], loop=ITERATIONS, workers=2)


def test_while_features_are_judged(interrupt):
    """In between two judgments, the second of which compares with the first."""
    judge = "default_hooks['judge'] = dict(type='ttl_mm.JudgeHook', share=0.9)\n"
    judge += "default_hooks['early_stop'] = dict(type='ttl_mm.EarlyStopHook', patience=9)\n"
    interrupt([10, 13], model=WITHOUT_TARGET, pipeline=OUR_VIEWS, more=judge)


@pytest.mark.parametrize('images', [44], indirect=True)
def test_two_ranks_with_workers(interrupt):
    interrupt([5, 7], ranks=2, workers=1)


faster = pytest.mark.parametrize(
    ('options', 'more'),
    [
        ({'amp': 'fp16'}, ''),
        ({'amp': 'bf16', 'checkpoint_activations': True}, ''),
        ({'compile': True}, "compile = dict(backend='aot_eager')\n"),
    ],
    ids=['fp16', 'bf16-recompute', 'compile'],
)


@faster
def test_every_way_to_a_faster_run(interrupt, options, more):
    interrupt([4, 11], options=options, more=more)


@pytest.mark.faults
@faster
@pytest.mark.parametrize('images', [44], indirect=True)
def test_every_way_to_a_faster_run_on_two_ranks(interrupt, options, more):
    interrupt([4, 11], ranks=2, workers=1, options=options, more=more)


@pytest.mark.faults
def test_compiled_to_machine_code_with_recomputation(interrupt):
    interrupt([4], options={'compile': True, 'checkpoint_activations': True})


@pytest.mark.parametrize('images', [44], indirect=True)
def test_two_ranks_of_the_fast_recipe(interrupt):
    """No target network, images in memory, Muon, a soft deputy, the coding rate, growing views.

    They have 8 pixels in epochs 0 and 1, and 12 from 2 on.
    """
    views = GROWING_VIEWS.replace(
        "type='ttl_mm.RandomViews',", "type='ttl_mm.RandomViews', in_memory=True,"
    )
    assert views != GROWING_VIEWS
    model = WITHOUT_TARGET.replace(
        'gather_negatives=True', 'gather_negatives=True, coding_rate=1.0'
    )
    muon = "optim_wrapper['optimizer'] = dict(type='ttl_mm.Muon', lr=0.1)\n"
    interrupt([9], ranks=2, workers=1, model=model, pipeline=views, more=muon)


@pytest.mark.faults
@pytest.mark.parametrize('views', [STOCK_VIEWS, OUR_VIEWS], ids=['stock', 'ours'])
@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS], ids=['epochs', 'iterations'])
@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize(('ranks', 'images'), [(1, 22), (2, 44)], indirect=['images'])
def test_every_step_of_every_kind_of_run(interrupt, ranks, workers, loop, views):
    # two ranks count the vote one step after the signal, and then finish the accumulation of three
    several = [range(1, 19, 3), range(2, 19, 3), range(3, 19, 6)]
    for points in [range(1, 20)] if ranks == 1 else several:
        interrupt(points, ranks, workers=workers, loop=loop, pipeline=views)
