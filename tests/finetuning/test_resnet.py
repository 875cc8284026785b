"""What a file may say about a network on a ResNet."""

import math

import pytest

from ttl_mm.errors import UserError
from ttl_mm.finetuning.resnet import checked_backbone, read_description

INPUT = {'size': 64, 'mean': [1, 2.5, 3], 'std': (4, 5, 6)}
META = {
    'detector': 'fpn', 'classes': ['cat', 'dog'], 'input': INPUT,
    'backbone': {'type': 'mmpretrain.ResNet', 'depth': 18, 'base_channels': 8},
}  # fmt: skip


def test_a_description_is_read():
    found = read_description(META, 'detector')
    assert (found.model, found.classes, found.size) == ('fpn', ('cat', 'dog'), 64)
    backbone = found.backbone()
    assert (backbone.mean, backbone.std) == ((1, 2.5, 3), (4, 5, 6))
    assert backbone.config == META['backbone']


@pytest.mark.parametrize(
    'meta',
    [None, [], 'text', {**META, 'detector': ['fpn']}, {**META, 'classes': 'cat'},
     {**META, 'classes': ['cat', 3]}, {**META, 'input': [64]}, *(
         {**META, 'input': {**INPUT, key: value}}
         for key, value in (
             ('size', 64.0), ('size', 7), ('size', 2**40), ('mean', [1, 2]), ('mean', 'abc'),
             ('mean', [1, 2, math.nan]), ('mean', [1, 2, math.inf]), ('mean', [1, 2, 10**400]),
             ('std', [1, 2, 0]), ('std', [True, 1, 1]),
         )
     )],
)  # fmt: skip
def test_what_is_no_description_is_none(meta):
    assert read_description(meta, 'detector') is None


@pytest.mark.parametrize('value', [8.0, [8], {}, None, 2**40])
def test_a_width_is_a_small_integer(value):
    config = {**META['backbone'], 'base_channels': value}
    with pytest.raises(UserError, match=r'base_channels=.* is refused'):
        checked_backbone(config)
