"""Backbones out of every known layout, and refusals that name what is wrong."""

import itertools

import pytest
import timm
import torch
import torchvision
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.models import ResNet, ResNet_CIFAR
from safetensors.torch import save_file

from tests.helpers.checkpoints import assert_bit_equal, below, make_resnet, other_values
from tests.helpers.paths import ROOT
from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS


@pytest.fixture(scope='module')
def state():
    return make_resnet().state_dict()


# layout -> prefixes of the backbone, of the target network, and names of other tensors
LAYOUTS = {
    'ours': (['backbone.'], 'target_backbone.', ['neck.fc0', 'head.predictor.fc0']),
    'authors': (['online_net.0.', 'backbone.'], 'target_net.0.', ['online_net.1.fc0']),
    'online_net only': (['online_net.0.'], 'target_net.0.', []),
    'MoCo v1/v2': (
        ['module.encoder_q.'],
        'module.encoder_k.',
        ['module.queue', 'module.queue_ptr', 'module.encoder_q.fc.0'],
    ),
    'MoCo v3': (
        ['module.base_encoder.'],
        'module.momentum_encoder.',
        ['module.base_encoder.fc.0', 'module.predictor.0'],
    ),
    'OpenSelfSup MoCo': (['encoder_q.0.'], 'encoder_k.0.', ['queue', 'encoder_q.1.mlp.0']),
    'mmselfsup BYOL': (['backbone.'], 'target_net.module.0.', ['neck.fc0']),
    'mmpretrain classifier': (['backbone.'], None, ['head.fc']),
    'mmdet detector': (['backbone.'], None, ['neck.lateral_convs.0.conv', 'rpn_head.rpn_conv']),
    'DistributedDataParallel': (['module.'], None, []),
    'bare': ([''], None, []),
}


def arranged(state, layout):
    """The tensors of a checkpoint in this layout, the target network first."""
    prefixes, target, others = LAYOUTS[layout]
    tensors = below(target, other_values(state)) if target else {}
    for prefix in prefixes:
        tensors |= below(prefix, state)
    return {**tensors, **{f'{name}.weight': torch.zeros(2, 2) for name in others}}


def detectron2(s):
    """The names that detectron2's ResNet has, spelled out block by block."""
    pairs = {'stem.conv1': 'conv1', 'stem.conv1.norm': 'bn1'}
    for i, j in itertools.product((1, 2, 3, 4), (0, 1)):
        for c in (1, 2):
            pairs[f'res{i + 1}.{j}.conv{c}'] = f'layer{i}.{j}.conv{c}'
            pairs[f'res{i + 1}.{j}.conv{c}.norm'] = f'layer{i}.{j}.bn{c}'
    for i in (2, 3, 4):
        pairs[f'res{i + 1}.0.shortcut'] = f'layer{i}.0.downsample.0'
        pairs[f'res{i + 1}.0.shortcut.norm'] = f'layer{i}.0.downsample.1'
    ends = ('weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked')
    named = ((f'{d2}.{end}', f'{house}.{end}') for d2, house in pairs.items() for end in ends)
    return {d2: s[house] for d2, house in named if house in s}


def test_every_layout(state, tmp_path):
    path = tmp_path / 'checkpoint.pth'
    contents = [{'meta': {'epoch': 1}, 'state_dict': arranged(state, name)} for name in LAYOUTS]
    for content in (*contents, state, {'model': detectron2(state), '__author__': 'x'}):
        torch.save(content, path)
        assert_bit_equal(load_backbone_state(path), state)
    save_file(below('backbone.', state), tmp_path / 'a.safetensors')
    assert_bit_equal(load_backbone_state(tmp_path / 'a.safetensors'), state)


@pytest.mark.parametrize('depth', [18, 34, 50, 101])
def test_torchvision_and_timm_states_load(depth):
    net = make_resnet(depth)
    for create in (torchvision.models.get_model, timm.create_model):
        theirs = create(f'resnet{depth}')
        load_state(net, load_backbone_state(theirs.state_dict()), 'a file')
        assert torch.equal(net.layer4[-1].conv2.weight, theirs.layer4[-1].conv2.weight)


def test_cifar_resnet_and_narrow_net():
    for build in (
        lambda: ResNet_CIFAR(depth=18),
        lambda: ResNet(depth=18, stem_channels=16, base_channels=16),
        lambda: ResNet(depth=50, deep_stem=True),
    ):
        source, target = build(), build()
        state = load_backbone_state({'state_dict': below('backbone.', source.state_dict())})
        load_state(target, state, 'a file')
        assert_bit_equal(target.state_dict(), source.state_dict())


def test_explicit_prefix_takes_the_target_and_leaves_a_head_behind(state):
    content = {'state_dict': arranged(state, 'ours')}
    found = load_backbone_state(content, prefix='target_backbone.')
    assert torch.equal(found['conv1.weight'], state['conv1.weight'] / 2)
    with pytest.raises(UserError, match=r"no tensor below 'teacher\.'"):
        load_backbone_state(content, prefix='teacher.')
    content = {**below('encoder.', state), 'encoder.fc.0.weight': torch.zeros(2, 2)}
    assert load_backbone_state(content, prefix='encoder.').keys() == state.keys()


def test_states_without_a_sound_online_backbone_are_refused(state):
    for bad, message in (
        (below('target_backbone.', state), r"only below 'target_backbone\.'"),
        ({'neck.fc0.weight': torch.zeros(2)}, r'holds no ResNet backbone.*neck\.fc0\.weight'),
        ({**state, 'bn1.bias': torch.full((64,), torch.nan)}, r'not finite in bn1\.bias'),
        # a view larger than its storage
        ({**state, 'conv1.weight': torch.zeros(1).expand(64, 3, 7, 7)}, r'conv1\.weight claims'),
    ):
        with pytest.raises(UserError, match=message):
            load_backbone_state({'state_dict': bad})


def real_models():
    """Whole models as their frameworks build them: ours, and two of mmpretrain."""
    config = Config.fromfile(next((ROOT / 'configs' / 'digits').glob('ttl_*.py')))
    net = {'type': 'mmpretrain.ResNet', 'depth': 18, 'stem_channels': 8, 'base_channels': 8}
    neck = {'type': 'mmpretrain.NonLinearNeck', 'in_channels': 64, 'hid_channels': 8,
            'out_channels': 8, 'with_avg_pool': True}  # fmt: skip
    predictor = {**neck, 'in_channels': 8, 'with_avg_pool': False}
    loss = {'type': 'mmpretrain.CosineSimilarityLoss'}
    head = {'type': 'mmpretrain.LatentPredictHead', 'predictor': predictor, 'loss': loss}
    entropy = {'type': 'mmpretrain.CrossEntropyLoss'}
    contrast = {'type': 'mmpretrain.ContrastiveHead', 'loss': entropy}
    moco_neck = {**neck, 'type': 'mmpretrain.MoCoV2Neck'}
    return {
        'TTLAlgorithm': config.model,
        'BYOL': {'type': 'mmpretrain.BYOL', 'backbone': net, 'neck': neck, 'head': head},
        'MoCo': {'type': 'mmpretrain.MoCo', 'backbone': net, 'neck': moco_neck, 'head': contrast,
                 'queue_len': 16, 'feat_dim': 8},
    }  # fmt: skip


@pytest.mark.parametrize('name', real_models())
def test_checkpoint_of_a_real_model(name, tmp_path):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(real_models()[name])
    model.init_weights()
    with torch.no_grad():
        for parameter in model.backbone.parameters():  # away from the target network
            parameter.add_(1)
    torch.save({'state_dict': model.state_dict()}, tmp_path / 'model.pth')
    assert_bit_equal(load_backbone_state(tmp_path / 'model.pth'), model.backbone.state_dict())
