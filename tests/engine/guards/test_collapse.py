"""The alarm goes off within one interval on every kind of collapse, and not on a healthy batch."""

from unittest.mock import MagicMock

import pytest
import torch
from torch import nn

from tests.helpers.two_processes import in_two_processes
from ttl_mm.engine.guards.collapse import CollapseHook
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.errors import UserError


def gaussian(images, dimensions, seed=0):
    return torch.randn(images, dimensions, generator=torch.Generator().manual_seed(seed))


def point(images, dimensions):
    return torch.ones(images, dimensions) + 1e-4 * gaussian(images, dimensions)


def poles(images, dimensions, number=2):
    """Images on a few directions: the standard deviation looks healthy."""
    return gaussian(number, dimensions)[torch.arange(images) % number]


def line(images, dimensions):
    return gaussian(images, 1) * gaussian(1, dimensions) + 1e-3 * gaussian(images, dimensions)


def spiral_of_rank_2(images, dimensions):
    return gaussian(images, 2) @ gaussian(2, dimensions, seed=1)


def look_at(features, iterations=2, **settings):
    """Run the hook over iterations whose neck gives these features; the errors it logged."""
    hook, model = CollapseHook(interval=2, **settings), nn.ModuleDict({'neck': nn.Identity()})
    runner = MagicMock(model=model)
    for runner.iter in range(iterations):
        hook.before_train_iter(runner, runner.iter)
        model['neck'](features)
        hook.after_train_iter(runner, runner.iter)
    return [call.args[0] for call in runner.logger.error.call_args_list]


SHAPES = [(32, 64), (104, 256), (16, 128), (196, 256)]


@pytest.mark.parametrize('collapsed', [point, poles, line, spiral_of_rank_2])
def test_alarm_on_collapse(collapsed):
    for shape in SHAPES:
        (alarm,) = look_at(collapsed(*shape))
        assert 'collapse at iteration 2' in alarm, shape


def test_silence_on_a_healthy_batch():
    """Also where all have a common direction, as an untrained network gives."""
    for shape in [*SHAPES, (4, 64)]:
        assert look_at(gaussian(*shape)) == [], shape
    for shape in SHAPES:
        assert look_at(gaussian(*shape) + 1) == [], shape


def test_looks_every_interval_and_stops_after_alarms_in_a_row():
    assert len(look_at(point(32, 64), iterations=6)) == 3
    assert len(look_at(point(32, 64), iterations=4, stop_after=3)) == 2
    with pytest.raises(TrainingStopped, match=r'collapse at iteration 4.* Lower the learning rate'):
        look_at(point(32, 64), iterations=4, stop_after=2)
    with pytest.raises(UserError, match='stop_after=0'):
        CollapseHook(stop_after=0)


def alarms_of_rank(rank: int) -> int:
    return len(look_at(point(32, 64) if rank else gaussian(32, 64), iterations=4))


def test_ranks_decide_alike(tmp_path):
    """By the mean over the ranks: one batch that looks collapsed is no alarm on its own."""
    assert in_two_processes(tmp_path, alarms_of_rank) == [0, 0]
