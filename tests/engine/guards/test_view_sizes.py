"""The sizes of views fit the network in every epoch, or it is said before the first step."""

from types import SimpleNamespace

import pytest
from mmengine.dataset import Compose

from tests.helpers.tiny_networks import Tokens
from ttl_mm.datasets.views import RandomViews
from ttl_mm.engine.guards.view_sizes import fit_view_sizes
from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import AdaptedBackbone
from ttl_mm.models.view_sizes import ViewSizes


def fit(views, sizes=None):
    """The sizes that a run would have, (first, later) of every view, and its log."""
    backbone = AdaptedBackbone(Tokens(), size=32)  # patches of 8 pixels
    backbone.facts = backbone.facts._replace(sizes=sizes or backbone.sizes)
    step, said = RandomViews(views), []
    inner = SimpleNamespace(pipeline=Compose([step]))
    runner = SimpleNamespace(
        model=SimpleNamespace(backbone=backbone),
        train_dataloader=SimpleNamespace(dataset=SimpleNamespace(dataset=inner)),
        logger=SimpleNamespace(info=said.append),
    )
    fit_view_sizes(runner)
    return [(view.size[0], [(e, s[0]) for e, s in view.later_sizes]) for view in step.views], said


def test_later_sizes_are_rounded_to_the_patch_and_said_once():
    found, said = fit([{'size': 24, 'num': 2, 'later_sizes': [(2, 30), (4, 40)]}, {'size': 16}])
    assert found == [(24, [(2, 32), (4, 40)])] * 2 + [(16, [])]
    assert len(said) == 1
    assert 'grows to allowed sizes: Tokens takes 8 pixels and more in steps of 8' in said[0]


def test_sizes_that_fit_are_left_alone_in_silence():
    assert fit([{'size': 24, 'later_sizes': [(2, 32)]}]) == ([(24, [(2, 32)])], [])


def test_a_network_of_one_size_does_without_a_schedule():
    found, said = fit([{'size': 32, 'later_sizes': [(2, 64)]}], ViewSizes(32, only=32))
    assert found == [(32, [])]
    assert 'does not grow with the epochs: Tokens takes 32 pixels only' in said[0]


def test_a_first_size_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match=r'images of 30 pixels: Tokens takes .* for instance 32'):
        fit([{'size': 32}, {'size': 30}])
