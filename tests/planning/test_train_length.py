import math
from dataclasses import replace

import pytest

from tests.helpers.plans import PHOTOS, TRIAL, drafted
from ttl_mm.errors import UserError
from ttl_mm.planning import train_length
from ttl_mm.planning.image_sources import Sample
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_length import better_size, duration, settle
from ttl_mm.planning.view_growth import FULL


@pytest.fixture(autouse=True)
def views_of_one_size(monkeypatch):
    """So that every step takes what the trial measured."""
    monkeypatch.setattr(train_length, 'best_sizes', lambda steps: FULL)


def test_epochs_by_default_and_more_where_images_are_few():
    for images, epochs in ((1_000_000, 100), (520, 200), (104, 400)):
        plan = settle(drafted(images=images), TRIAL, Request(('photos',)))
        assert plan.epochs == epochs, images
        assert plan.steps == epochs * (images // 104)
    few = settle(drafted(), TRIAL, Request(('photos',), epochs=3))
    assert 'learns little in 27 steps' in few.cautions[-1]
    long = settle(drafted(images=1_000_000), TRIAL, Request(('photos',)))
    assert 'This takes 22 days here. --hours 24 fits it' in long.cautions[-1]


@pytest.mark.parametrize('labels', [None, 'folder'])
@pytest.mark.parametrize('hours', [0.1, 1.0, 10.0])
def test_hours_take_as_many_steps_as_fit(hours, labels):
    request = Request(('photos',), hours=hours, labels=labels)
    plan = settle(drafted(request), TRIAL, request, elapsed=20)

    def time_of(steps):
        """Added up by hand: a checkpoint every 300 steps, which are ten minutes."""
        probes = math.ceil(steps / 9 / max(1, round(steps / 9 / 8))) if labels else 0
        saves = math.ceil(steps / min(300, steps))
        closing = 7 + (2 * 3 if labels else 0)  # as long as the start, and two more probes
        return 20 + 10 + 1 + 2 * steps + 4 * saves + 3 * probes + closing

    assert plan.seconds(bool(labels)) + 20 == pytest.approx(time_of(plan.steps))
    assert time_of(plan.steps) <= 3600 * hours < time_of(plan.steps + 1) + 10
    # the last step comes before the last save and what follows
    assert plan.limit == 3600 * hours - 20 - 4 - plan.closing(bool(labels))


def test_too_few_hours_say_how_many_are_needed():
    slow, request = TRIAL._replace(step=20.0), Request(('photos',), hours=0.05)
    # 180 s - 20 - 10 to start - 1 to warm up - 7 to close - 4 to save: 6 steps; 10 take 242 s
    message = r'--hours 0.05 leaves time for 6 steps of 20 s: give at least --hours 0.07, a smaller'
    with pytest.raises(UserError, match=message):
        settle(drafted(request), slow, request, elapsed=20)
    assert settle(drafted(request), slow, replace(request, hours=0.07), elapsed=20).steps == 10


def test_the_size_is_the_largest_with_enough_steps():
    for hours, size in ((0.3, 64), (0.9, 96), (3.0, 192), (30.0, 224)):
        request = Request(('photos',), hours=hours)
        plan = settle(drafted(request), TRIAL, request)
        assert better_size(plan, request, PHOTOS) == size
        assert better_size(plan, replace(request, size=160), PHOTOS) == plan.size
    small = Sample(9, [], 100)
    assert better_size(plan, request, small) == 96  # not more than the images have


def test_durations_in_words():
    words = {45: '45 s', 1000: '17 min', 5400: '1.5 h', 864_000: '10 days'}
    assert {seconds: duration(seconds) for seconds in words} == words
