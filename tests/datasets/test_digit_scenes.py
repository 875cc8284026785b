import numpy as np
import pytest

from ttl_mm.datasets import Digits, DigitScenes
from ttl_mm.datasets.digit_scenes import SHADE
from ttl_mm.errors import UserError


def images(**settings):
    scenes = DigitScenes(**settings)
    return np.stack([scenes[i]['img'] for i in range(len(scenes))]), scenes


def test_an_image_depends_on_seed_split_and_index_alone():
    few, scenes = images(num=5)
    more, _ = images(num=9)
    assert few.shape == (5, 32, 32, 3)
    assert few.dtype == np.uint8
    assert (more[:5] == few).all()
    for other in ({'seed': 1}, {'split': 'test'}):
        assert (images(num=5, **other)[0] != few).any()
    assert set(scenes.metainfo['classes']) == set(Digits().metainfo['classes'])


def test_digits_are_light_and_lie_on_dark_photographs_at_many_places():
    found, _ = images(num=200)
    light = found.max(axis=3) > 255 * SHADE + 10  # brighter than any piece of a photograph
    assert light.any(axis=(1, 2)).all()
    assert light.mean(axis=(1, 2)).max() < 0.5  # the photograph is seen
    rows = np.arange(32)[None, :, None]
    centers = (light * rows).sum(axis=(1, 2)) / light.sum(axis=(1, 2))
    # a digit of 15 pixels or more lies inside: its middle is 7.5 or more from an edge, and its
    # ink at most 2.5 from its middle
    assert 5 < centers.min() < 12
    assert 20 < centers.max() < 27


def test_an_unknown_split_is_refused():
    with pytest.raises(UserError, match="split='val'"):
        DigitScenes(split='val')
