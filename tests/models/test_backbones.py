import sys

import pytest
import torch
from mmengine.registry import DefaultScope

from ttl_mm.errors import UserError
from ttl_mm.models.backbones import backbone_names, find_backbone, installed_names
from ttl_mm.models.build_loaded import WithoutWeights
from ttl_mm.registry import MODELS


@pytest.mark.parametrize('name', backbone_names())
def test_width_and_smallest_size_are_those_of_the_network(name):
    backbone = find_backbone(name)
    with DefaultScope.overwrite_default_scope('mmpretrain'), WithoutWeights():
        network = MODELS.build(backbone.config).to('meta')
    edge = backbone.sizes.smallest
    maps = [network(torch.empty(2, 3, s, s, device='meta'))[-1] for s in (edge, edge + 1)]
    assert [tuple(m.shape) for m in maps] == [(2, backbone.width, s, s) for s in (1, 2)]


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match=r'backbone ResNet51 .* the nearest names are resnet'):
        find_backbone('ResNet51')
    with pytest.raises(UserError, match='known are resnet18 and such'):
        find_backbone('qqq')
    with pytest.raises(UserError, match='the nearest names are timm/convnext_atto'):
        find_backbone('convnext_atto')
    with pytest.raises(UserError, match='the nearest names are torchvision/resnet50'):
        find_backbone('torchvision/resnet_50')


def test_a_library_that_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'timm', None)  # as if it were not installed
    with pytest.raises(UserError, match=r"timm is not installed .* pip install 'ttl-mm\[timm\]'"):
        find_backbone('timm/resnet18')
    assert not any(name.startswith('timm/') for name in installed_names())
