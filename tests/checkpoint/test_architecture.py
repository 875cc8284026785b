import json

import pytest
import torch

from ttl_mm.checkpoint.architecture import Architecture, architecture_of, declared_architecture
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.errors import UserError


def test_a_name_in_a_config_or_a_file_is_found():
    vit = Architecture('torchvision/vit_b_16', 64)
    assert architecture_of(vit.config) == vit
    assert architecture_of('timm/resnet18') == Architecture('timm/resnet18')
    assert declared_architecture({'meta': {'backbone': vit.config}}) == vit
    config = json.dumps({'model': {'backbone': 'timm/resnet18'}})
    assert declared_architecture({'ttl_mm': {'config': config}}).name == 'resnet18'
    assert architecture_of('module/Net-01ab').library == 'module'  # which no file can build


def test_anything_else_is_no_name():
    for value in (
        None, 3, 'resnet18', 'timm/../x', 'timm/hf-hub:a/b', {'type': 'ResNet', 'depth': 18},
        {'type': 'ttl_mm.AdaptedBackbone', 'network': ['timm/x']},
    ):  # fmt: skip
        assert architecture_of(value) is None
        assert declared_architecture({'meta': {'backbone': value}}) is None
    odd = {'type': 'ttl_mm.AdaptedBackbone', 'network': 'timm/x', 'size': True}
    assert architecture_of(odd).size is None
    assert declared_architecture({'ttl_mm': {'config': '{'}}) is None


def test_expected_names_are_found_below_any_prefix():
    state = {'blocks.0.weight': torch.ones(2), 'norm.bias': torch.ones(3)}
    for prefix in ('', 'backbone.', 'module.', 'encoder_q.'):
        file = {prefix + name: tensor for name, tensor in state.items()}
        file[prefix + 'head.weight'] = torch.zeros(1)  # of its classifier
        assert load_backbone_state(file, expected=state).keys() == state.keys()
    with pytest.raises(UserError, match='not finite'):
        load_backbone_state({'norm.bias': torch.tensor([torch.nan])}, expected=state)
