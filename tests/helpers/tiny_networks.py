"""Narrow networks under names of their libraries, where the libraries have no small ones."""

import pytest
from timm.models import _registry as timm_registry
from timm.models.swin_transformer import SwinTransformer
from torchvision.models import _api as torchvision_registry
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.vision_transformer import VisionTransformer

#: networks of timm, torchvision and mmpretrain, each with an edge of its images in the tests
NETWORKS = {
    'timm/test_resnet': 32,
    'timm/regnetx_002': 32,
    'timm/test_efficientnet': 32,
    'timm/mobilenetv3_small_050': 32,
    'timm/test_convnext': 32,
    'timm/test_vit': 32,
    'timm/tiny_swin': 32,
    'torchvision/resnet18': 32,
    'torchvision/tiny_convnext': 32,
    'torchvision/tiny_vit': 32,
    'mmpretrain/resnet18_8xb16_cifar10': 32,
    'mmpretrain/mobilenet-v2_8xb32_in1k': 32,
    'mmpretrain/convnext-v2-atto_32xb32_in1k': 32,
    'mmpretrain/deit-tiny_4xb256_in1k': 32,
}


def tiny_swin(pretrained=False, pretrained_cfg=None, **options):
    options = {k: v for k, v in options.items() if not k.startswith('pretrained')}
    return SwinTransformer(embed_dim=8, depths=(1, 2, 1, 1), num_heads=(1, 2, 4, 8), **options)


def tiny_vit(*, weights=None, progress=True, image_size=64, **options):
    return VisionTransformer(image_size, 16, 2, 2, 32, 64, **options)


def tiny_convnext(*, weights=None, progress=True, **options):
    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)]
    return ConvNeXt(blocks, stochastic_depth_prob=0.3, **options)


def register_tiny(patch: pytest.MonkeyPatch) -> None:
    """Let the libraries know the three networks above."""
    patch.setitem(timm_registry._model_entrypoints, 'tiny_swin', tiny_swin)
    patch.setattr(
        timm_registry, '_model_to_module', {**timm_registry._model_to_module, 'tiny_swin': 'swin'}
    )
    usual = timm_registry.get_pretrained_cfg('swin_tiny_patch4_window7_224')
    patch.setitem(timm_registry._model_pretrained_cfgs, 'tiny_swin', usual)
    for build in (tiny_vit, tiny_convnext):
        build.__module__ = 'torchvision.models.tiny'
        patch.setitem(torchvision_registry.BUILTIN_MODELS, build.__name__, build)
