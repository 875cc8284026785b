"""The sizes of views follow from the measured curve, and from the time there is."""

import json

import pytest

from projects.accuracy_per_hour import tables
from tests.helpers.paths import ROOT
from tests.helpers.plans import TRIAL, drafted
from ttl_mm.models.backbones import find_backbone
from ttl_mm.planning import train_length
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_length import settle
from ttl_mm.planning.view_growth import (
    CURVE,
    FULL,
    SMALL,
    best_sizes,
    measured_curve,
    pixels_of,
)

MADE_UP = {'steps': [100, 1000, 10_000], 'gain': [3.0, 1.0, -1.0]}


@pytest.mark.parametrize(
    ('steps', 'sizes'),
    # at 3,000 steps the gain is 0.05, at 3,500 it is -0.09
    [(10, SMALL), (1000, SMALL), (3000, SMALL), (3500, FULL), (10_000, FULL), (10_001, None)],
)
def test_small_views_where_they_gain_and_no_word_beyond_what_was_measured(steps, sizes):
    assert best_sizes(steps, MADE_UP) == sizes


def test_pixels_are_those_of_a_loop_over_steps():
    sizes = ((0.0, 0.5), (0.5, 0.75), (0.85, 1.0))
    steps = [i / 1000 for i in range(1000)]
    share = [max(s for start, s in sizes if start <= at) for at in steps]
    assert pixels_of(sizes) == pytest.approx(sum(s**2 for s in share) / 1000)


def test_a_run_of_hours_has_the_sizes_of_the_curve_and_the_steps_that_they_save(monkeypatch):
    request = Request(('photos',), hours=0.1)
    plan = settle(drafted(request), TRIAL, request)
    assert plan.growth == best_sizes(360 / TRIAL.step) == SMALL
    assert plan.steps * TRIAL.step * 0.75**2 == pytest.approx(360, rel=0.1)
    long = Request(('photos',), hours=100.0)
    assert settle(drafted(long), TRIAL, long).growth is None  # as in the recipe
    assert settle(drafted(), TRIAL, Request(('photos',), epochs=3)).growth is None
    fixed = find_backbone('resnet18')._replace(one_size=True)
    monkeypatch.setattr(train_length, 'find_backbone', lambda name: fixed)
    assert settle(drafted(request), TRIAL, request).growth is None


def test_the_curve_is_that_of_the_committed_runs():
    found = tables.small_views_curve(ROOT / 'projects/accuracy_per_hour/results')
    assert found == json.loads(CURVE.read_text()) == measured_curve()
    assert len(found['steps']) >= 4
    assert found['steps'] == sorted(found['steps'])
