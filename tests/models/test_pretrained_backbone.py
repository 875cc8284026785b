"""A start from pre-training is complete or refused."""

import ttl_mm.registry  # noqa: F401  isort: skip

import pytest
import torch
from mmengine.model import BaseModule
from mmpretrain.models import ResNet
from torch import nn

from ttl_mm.checkpoint.coverage import count_equal
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.errors import UserError
from ttl_mm.models.pretrained_backbone import PretrainedBackbone


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory) -> str:
    torch.manual_seed(1)
    state = ResNet(18).state_dict(prefix='backbone.')
    state |= {'neck.fc0.weight': torch.zeros(2, 2)}
    path = tmp_path_factory.mktemp('start') / 'pretrained.pth'
    torch.save(dict(state_dict=state), path)
    return str(path)


class LastStage(BaseModule):
    """What a C4 head takes from the backbone, with a norm of its own."""

    def __init__(self, depth: int = 18, init_cfg=None) -> None:
        super().__init__(init_cfg)
        self.layer4 = ResNet(depth).layer4
        self.norm = nn.BatchNorm2d(512)


def test_a_stage_is_taken_from_a_whole_backbone_also_as_init_cfg(checkpoint: str) -> None:
    stage = LastStage()
    nn.init.constant_(stage.norm.weight, 3.0)
    PretrainedBackbone(checkpoint, fresh=['norm.'])(stage)
    equal, total = count_equal(stage.layer4, load_backbone_state(checkpoint), 'layer4.')
    assert equal == total == 25  # 5 convolutions and 5 norms of 4 tensors
    assert (stage.norm.weight == 3).all()
    # the registry resolves it, and mmengine's own initialization does not overwrite it
    start = dict(type='ttl_mm.PretrainedBackbone', checkpoint=checkpoint, fresh=['norm.'])
    stage = LastStage(init_cfg=start)
    stage.init_weights()
    equal, total = count_equal(stage.layer4, load_backbone_state(checkpoint), 'layer4.')
    assert equal == total


def test_tensors_without_counterpart_and_another_depth_are_refused(checkpoint: str) -> None:
    with pytest.raises(UserError, match=r'norm\.bias'):
        PretrainedBackbone(checkpoint)(LastStage())
    with pytest.raises(UserError, match='29 of the 39 tensors of the model'):
        PretrainedBackbone(checkpoint, fresh=['norm.'])(LastStage(depth=34))
