import pytest
import torch
from torch import nn

from tests.helpers.checkpoints import assert_bit_equal
from tests.helpers.tiny_networks import Tokens
from ttl_mm.errors import UserError
from ttl_mm.models import AdaptedBackbone
from ttl_mm.models.adapted_backbone import module_facts, network_facts, pool, synchronized
from ttl_mm.models.libraries import build_network, give_module, given_module
from ttl_mm.registry import MODELS


def test_maps_tokens_and_vectors_become_features():
    maps = torch.randn(2, 5, 4, 4)
    tokens = maps.flatten(2).transpose(1, 2)
    mean = maps.flatten(2).mean(2)
    for outputs in (maps, (maps * 2, maps), {'out': maps}, tokens, mean):
        torch.testing.assert_close(pool(outputs), mean)
    with_class = torch.cat([torch.full((2, 1, 5), 7.0), tokens], dim=1)
    assert torch.equal(pool(with_class), torch.full((2, 5), 7.0))
    for nothing in (torch.zeros(2), torch.zeros(2, 5, dtype=torch.long), None, ()):
        with pytest.raises(UserError, match='which are no features'):
            pool(nothing)


@pytest.mark.parametrize('class_token', [False, True])
def test_any_module_is_a_backbone(class_token):
    network = Tokens(class_token)
    backbone = AdaptedBackbone(network, size=64)
    assert backbone.facts.width == backbone.feat_dim == 5
    assert (backbone.sizes.multiple, backbone.sizes.only) == (8, None)
    assert backbone.facts.norm == 'layer'
    images = torch.randn(2, 3, 32, 32)
    (features,) = backbone(images)
    torch.testing.assert_close(features.flatten(1), pool(network(images)))
    with pytest.raises(UserError, match=r'images of 36 pixels: Tokens takes .* for instance 32'):
        backbone(torch.randn(2, 3, 36, 36))


def test_a_module_without_features_is_refused():
    with pytest.raises(UserError, match=r'Linear computes no features of images \(2, 3, 64, 64\)'):
        AdaptedBackbone(nn.Linear(7, 2), size=64)
    with pytest.raises(UserError, match='which are no features'):
        AdaptedBackbone(nn.Flatten(0), size=64)


def test_its_state_dict_is_that_of_the_library():
    backbone = MODELS.build({'type': 'ttl_mm.AdaptedBackbone', 'network': 'timm/test_resnet'})
    theirs = build_network('timm/test_resnet').network
    backbone.load_state_dict(theirs.state_dict())  # strict
    assert_bit_equal(backbone.state_dict(), theirs.state_dict())
    whole = nn.ModuleDict({'backbone': backbone})
    state = whole.state_dict()
    assert state.keys() == {f'backbone.{name}' for name in theirs.state_dict()}
    other = {name: value + 1 for name, value in state.items()}
    whole.load_state_dict(other)
    assert_bit_equal(whole.state_dict(), other)


def test_synchronized_norms_compute_the_same_in_evaluation():
    network = build_network('timm/test_efficientnet').network.eval()  # norms with activations
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        before = network(images)
        changed = synchronized(network).eval()
        assert any(isinstance(layer, nn.SyncBatchNorm) for layer in changed.modules())
        torch.testing.assert_close(changed(images), before)


def test_facts_are_those_of_the_network():
    facts = network_facts('timm/test_vit')
    network = build_network('timm/test_vit').network.eval()
    with torch.no_grad():
        assert facts.width == network(torch.zeros(1, 3, 48, 48)).shape[1]
    assert facts.parameters == sum(p.numel() for p in network.parameters())
    assert (facts.size, facts.sizes.multiple, facts.norm) == (160, 16, 'layer')
    assert facts.mean == (127.5,) * 3  # its own, not ImageNet's
    assert network_facts('torchvision/resnet18').mean == (123.675, 116.28, 103.53)
    assert network_facts('mmpretrain/resnet18_8xb16_cifar10').mean == (125.307, 122.961, 113.8575)


@pytest.mark.parametrize(
    ('name', 'norm'),
    [
        ('timm/test_resnet', 'batch'),
        ('timm/test_efficientnet', 'batch'),
        ('timm/test_convnext', 'layer'),
        ('timm/mobilevit_xxs', 'both'),  # convolutions with BatchNorm, attention with LayerNorm
        ('timm/levit_128s', 'both'),  # attention with BatchNorm
    ],
)
def test_the_norm_tells_convolutions_from_transformers(name, norm):
    assert network_facts(name).norm == norm


def test_a_module_keeps_its_weights_and_what_it_says_about_its_images():
    network = build_network('timm/test_vit').network
    backbone = AdaptedBackbone(network)
    backbone.init_weights()
    assert backbone.net is network
    assert (backbone.facts.size, backbone.facts.mean) == (160, (127.5,) * 3)
    assert module_facts(Tokens(), 32).mean == (123.675, 116.28, 103.53)


def test_a_given_module_has_a_name_that_follows_from_its_structure():
    names = [give_module(Tokens(*options)) for options in ((), (), (True,))]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith('module/Tokens-')
    assert give_module(Tokens().eval(), 32) not in names
    built = build_network(names[2]).network
    assert built.class_token
    assert built is not given_module(names[2])[0]
    with pytest.raises(UserError, match='module/Other is a module that was given in Python'):
        build_network('module/Other')
