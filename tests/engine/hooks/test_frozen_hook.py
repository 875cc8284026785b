"""A backbone that is trained, replaced or moved ends a linear evaluation."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.helpers.checkpoints import random_network
from ttl_mm.engine import FrozenBackboneHook
from ttl_mm.errors import UserError


def start(backbone, **init_cfg):
    """The hook before the first step of a run, and the run."""
    backbone.init_cfg = init_cfg
    hook, run = FrozenBackboneHook(), SimpleNamespace(model=nn.ModuleDict({'backbone': backbone}))
    hook.before_train(run)
    return hook, run


def test_a_trainable_backbone_is_refused():
    backbone = random_network(0).requires_grad_(False)
    backbone.layer4.requires_grad_(True)
    with pytest.raises(UserError, match=r'15 weights of the backbone would be trained \(layer4'):
        start(backbone)


def test_weights_that_changed_after_loading_are_noticed(tmp_path):
    backbone, path = random_network(0).requires_grad_(False), str(tmp_path / 'weights.pth')
    torch.save(backbone.state_dict(), path)
    start(backbone, checkpoint=path)
    backbone.layer2[0].bn1.weight.data[0] += 1
    with pytest.raises(UserError, match='1 of the 100 tensors of the backbone are not those of'):
        start(backbone, checkpoint=path)


def test_moving_statistics_are_noticed():
    backbone = nn.BatchNorm1d(2).requires_grad_(False)
    hook, run = start(backbone)
    hook.after_train_epoch(run)
    backbone(torch.randn(4, 2))
    with pytest.raises(UserError, match='the frozen backbone has changed in 3 tensors'):
        hook.after_train_epoch(run)
