import pytest
from mmpretrain.models import ResNet, ResNet_CIFAR, ResNeXt

from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.layouts import (
    architecture,
    backbone_config,
    from_detectron2,
    to_detectron2,
    unwrap,
)
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS

NETWORKS = {
    'ResNet-18': lambda: ResNet(18),
    'ResNet-34': lambda: ResNet(34),
    'ResNet-50': lambda: ResNet(50),
    'ResNet-50 (8 channels)': lambda: ResNet(50, stem_channels=8, base_channels=8),
    'ResNet-18 (3x3 stem)': lambda: ResNet_CIFAR(18),
    'ResNet-18 (deep stem, pooled shortcuts)': lambda: ResNet(18, deep_stem=True, avg_down=True),
}


def test_the_architecture_follows_from_the_shapes():
    for name, build in NETWORKS.items():
        shapes = shapes_of(build().state_dict())
        assert architecture(shapes) == name
        assert shapes_of(MODELS.build(backbone_config(shapes)).state_dict()) == shapes
    shapes = shapes_of(ResNeXt(50).state_dict())
    assert backbone_config(shapes) is None
    assert architecture(shapes) == 'network of 16 residual blocks'


def test_names_of_detectron2_and_wrappers():
    names = list(ResNet(50).state_dict())
    assert [from_detectron2(to_detectron2(name)) for name in names] == names
    assert to_detectron2('layer2.0.downsample.1.bias') == 'res3.0.shortcut.norm.bias'
    assert from_detectron2('proposal_generator.rpn_head.conv.weight') is None
    with pytest.raises(UserError, match='no name for stem'):
        to_detectron2('stem.0.conv.weight')
    assert unwrap(['module.model.a', 'module.model.b.c']) == 'module.model.'
    assert unwrap(['module.a', 'b']) == ''
    assert unwrap([]) == ''
