"""The alarm goes off within one interval on every kind of collapse, and not on a healthy batch."""

import logging
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from torch import nn

from ttl_mm.engine.guards.collapse import CollapseHook
from ttl_mm.engine.state.exit_codes import TrainingStopped


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
    """Run the hook over iterations whose neck gives these features; what it logged."""
    hook = CollapseHook(interval=2, **settings)
    neck = nn.Identity()
    runner = MagicMock(model=SimpleNamespace(neck=neck), iter=0)
    for runner.iter in range(iterations):
        hook.before_train_iter(runner, runner.iter)
        neck(features)
        hook.after_train_iter(runner, runner.iter)
    return [call.args[1] for call in runner.logger.log.call_args_list]


SHAPES = [(32, 64), (104, 256), (16, 128), (196, 256)]


@pytest.mark.parametrize('shape', SHAPES)
@pytest.mark.parametrize('collapsed', [point, poles, line, spiral_of_rank_2])
def test_alarm_on_collapse(collapsed, shape):
    (alarm,) = look_at(collapsed(*shape))
    assert 'collapse at iteration 2' in alarm


@pytest.mark.parametrize('shape', [*SHAPES, (4, 64)])
def test_silence_on_a_healthy_batch(shape):
    assert look_at(gaussian(*shape)) == []


@pytest.mark.parametrize('shape', SHAPES)
def test_silence_on_a_batch_with_a_common_direction(shape):
    """As an untrained network gives: all alike at first sight, but using many dimensions."""
    assert look_at(gaussian(*shape) + 1) == []


def test_looks_only_every_interval():
    assert len(look_at(point(32, 64), iterations=6)) == 3


def test_stops_after_alarms_in_a_row():
    assert len(look_at(point(32, 64), iterations=4, stop_after=3)) == 2
    with pytest.raises(TrainingStopped, match='collapse at iteration 4'):
        look_at(point(32, 64), iterations=4, stop_after=2)


def test_the_log_level_is_error():
    hook, runner = CollapseHook(interval=1), MagicMock(iter=0)
    runner.model = SimpleNamespace(neck=nn.Identity())
    hook.before_train_iter(runner, 0)
    runner.model.neck(point(32, 64))
    hook.after_train_iter(runner, 0)
    assert runner.logger.log.call_args.args[0] == logging.ERROR
