"""Narrow networks of every family under names of their libraries, which have few small ones."""

from pathlib import Path

import pytest
import torch
from timm.models import _registry as timm_registry
from timm.models.mobilenetv3 import _gen_mobilenet_v3
from timm.models.regnet import RegNet, RegNetCfg
from timm.models.swin_transformer import SwinTransformer
from torch import nn
from torchvision.models import _api as torchvision_registry
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.models.vision_transformer import VisionTransformer

from ttl_mm.models import libraries

#: one of each family and library; all train on images of 32 pixels in the tests
NETWORKS = (
    'timm/test_resnet',
    'timm/tiny_regnet',
    'timm/test_efficientnet',
    'timm/tiny_mobilenetv3',
    'timm/test_convnext',
    'timm/test_vit',
    'timm/tiny_swin',
    'torchvision/tiny_resnet',
    'torchvision/tiny_convnext',
    'torchvision/tiny_vit',
    'mmpretrain/tiny_resnet',
    'mmpretrain/tiny_mobilenet_v2',
    'mmpretrain/tiny_convnext',
    'mmpretrain/tiny_vit',
)
#: names of mmpretrain's own zoo, the smallest of each family
OF_THE_ZOO = (
    'mmpretrain/resnet18_8xb16_cifar10',
    'mmpretrain/mobilenet-v2_8xb32_in1k',
    'mmpretrain/convnext-v2-atto_32xb32_in1k',
    'mmpretrain/deit-tiny_4xb256_in1k',
)


def _own(options):
    """What is for the network, and not for the files of weights that timm could fetch."""
    return {
        key: value
        for key, value in options.items()
        if not key.startswith('pretrained') and key != 'cache_dir'
    }


def tiny_swin(**options):
    return SwinTransformer(
        embed_dim=8, depths=(1, 2, 1, 1), num_heads=(1, 2, 4, 8), **_own(options)
    )


def tiny_regnet(**options):
    cfg = RegNetCfg(depth=6, w0=8, wa=12.0, wm=2.2, group_size=8, se_ratio=0.25)
    return RegNet(cfg, **_own(options))


def tiny_mobilenetv3(**options):
    return _gen_mobilenet_v3('mobilenetv3_small_050', 0.1, **_own(options))


def tiny_vit(*, weights=None, progress=True, image_size=64, **options):
    return VisionTransformer(image_size, 16, 2, 2, 32, 64, **options)


def tiny_convnext(*, weights=None, progress=True, **options):
    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)]
    return ConvNeXt(blocks, stochastic_depth_prob=0.3, **options)


class NarrowResNet(ResNet):
    """With an eighth of the channels behind the stem."""

    def __init__(self, **options):
        super().__init__(BasicBlock, [1, 1, 1, 1], **options)
        self.fc = nn.Linear(64, self.fc.out_features)

    def _make_layer(self, block, planes, *more, **options):
        return super()._make_layer(block, planes // 8, *more, **options)


def tiny_resnet(*, weights=None, progress=True, **options):
    return NarrowResNet(**options)


#: to the network of timm that has the same kind of settings
TIMM = {
    tiny_swin: 'swin_tiny_patch4_window7_224',
    tiny_regnet: 'regnetx_002',
    tiny_mobilenetv3: 'mobilenetv3_small_050',
}
TORCHVISION = (tiny_vit, tiny_convnext, tiny_resnet)
MMPRETRAIN = {
    'tiny_resnet': "type='ResNet', depth=18, base_channels=8, stem_channels=8",
    'tiny_mobilenet_v2': "type='MobileNetV2', widen_factor=0.1",
    'tiny_convnext': "type='ConvNeXt', arch=dict(depths=[1, 1, 2, 1], channels=[8, 8, 16, 32])",
    'tiny_vit': (
        "type='VisionTransformer', img_size=64, patch_size=16, arch=dict(embed_dims=32, "
        'num_layers=2, num_heads=2, feedforward_channels=64)'
    ),
}


def register_tiny(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the libraries know the networks above; the configs of mmpretrain's lie in ``folder``."""
    modules = {build.__name__: 'tiny' for build in TIMM}
    patch.setattr(timm_registry, '_model_to_module', {**timm_registry._model_to_module, **modules})
    for build, like in TIMM.items():
        patch.setitem(timm_registry._model_entrypoints, build.__name__, build)
        usual = timm_registry.get_pretrained_cfg(like)
        patch.setitem(timm_registry._model_pretrained_cfgs, build.__name__, usual)
    for build in TORCHVISION:
        build.__module__ = 'torchvision.models.tiny'
        patch.setitem(torchvision_registry.BUILTIN_MODELS, build.__name__, build)
    configs = dict(libraries._mmpretrain_configs())
    for name, options in MMPRETRAIN.items():
        configs[name] = folder / f'{name}.py'
        configs[name].write_text(f'model = dict(backbone=dict({options}))\n')
    patch.setattr(libraries, '_mmpretrain_configs', lambda: configs)


class Tokens(nn.Module):
    """A module of nobody's library: patches of 8 pixels as tokens, or with a class token."""

    def __init__(self, class_token=False):
        super().__init__()
        self.patches = nn.Conv2d(3, 5, 8, stride=8)
        self.norm = nn.LayerNorm(5)
        self.class_token = class_token

    def forward(self, images):
        tokens = self.norm(self.patches(images).flatten(2).transpose(1, 2))
        return torch.cat([tokens[:, :1] + 1, tokens], dim=1) if self.class_token else tokens
