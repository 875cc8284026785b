import hashlib

import pytest
import torch
from mmpretrain.models import ResNet, ResNet_CIFAR

from tests.helpers.checkpoints import assert_bit_equal, below, random_network
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import IMAGENET, default_size, load_model

MODEL = """
model = dict(
    backbone=dict(
        type='ResNet_CIFAR', depth=18, stem_channels=8, base_channels=8,
        norm_cfg=dict(type='SyncBN'),
    )
)
"""


def test_the_network_follows_from_the_shapes(checkpoint, network):
    backbone, preprocessor, about = load_model(str(checkpoint))
    assert type(backbone) is ResNet_CIFAR
    assert not backbone.training
    assert_bit_equal(backbone.state_dict(), network.state_dict())
    assert preprocessor.mean.flatten().tolist() == pytest.approx(IMAGENET['mean'])
    assert about['checkpoint_sha256'] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()


def test_a_config_has_the_normalization(checkpoint, tmp_path):
    """Beside the model, as in mmpretrain's own; synchronized BatchNorm becomes a plain one."""
    config = tmp_path / 'config.py'
    config.write_text(MODEL)
    with pytest.raises(UserError, match='no model with a backbone and a data_preprocessor'):
        load_model(str(checkpoint), str(config))
    pixels = 'data_preprocessor = dict(mean=[10, 20, 30], std=[2, 2, 2], to_rgb=False)'
    config.write_text(MODEL + pixels)
    backbone, preprocessor, about = load_model(str(checkpoint), str(config))
    assert type(backbone.bn1) is torch.nn.BatchNorm2d
    assert preprocessor.mean.flatten().tolist() == [10, 20, 30]
    assert about['normalization'] == {'mean': [10, 20, 30], 'std': [2, 2, 2], 'to_rgb': False}


def test_an_untrained_network_has_weights_of_its_own_and_all_its_branches(tmp_path):
    state = below('backbone.', random_network(0).state_dict())
    torch.save({'state_dict': state}, tmp_path / 'x.pth')
    drawn = [load_model(str(tmp_path / 'x.pth'), untrained=seed)[0] for seed in (1, 1, 2)]
    for name, tensor in drawn[0].state_dict().items():
        assert torch.equal(tensor, drawn[1].state_dict()[name])
        if name.endswith('conv1.weight'):
            assert not torch.equal(tensor, drawn[2].state_dict()[name])
            assert not torch.equal(tensor, state[f'backbone.{name}'])
        if 'bn' in name and name.endswith('weight'):
            assert (tensor == 1).all()


def test_the_default_size_follows_from_the_stem(network):
    assert default_size(network) == 32
    assert default_size(ResNet(18, base_channels=4, stem_channels=4)) == 224
