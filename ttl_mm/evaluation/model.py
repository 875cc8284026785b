"""The network of an evaluation: a checkpoint's backbone, and the normalization of its images."""

import torch
from mmengine.registry import DefaultScope
from torch import nn

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.coverage import load_state, shapes_of
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS
from ttl_mm.zoo.cache import sha256_of

IMAGENET = {'mean': (123.675, 116.28, 103.53), 'std': (58.395, 57.12, 57.375), 'to_rgb': True}


def load_model(
    checkpoint: str, config: str | None = None, device: str | torch.device | None = None
) -> tuple[nn.Module, nn.Module, dict]:
    """The backbone, its preprocessor, and where they came from.

    Args:
        checkpoint: a file in any layout that :mod:`ttl_mm.checkpoint.load` reads, or ``ttl_mm://name``.
        config: a config with the backbone and the ``data_preprocessor``. Without one the backbone
            is read off the shapes, and images are normalized as for ImageNet.
        device: a GPU if there is one, by default.
    """
    path = resolve(checkpoint)
    state = load_backbone_state(path)
    shapes = shapes_of(state)
    if config is None:
        backbone_cfg = layouts.backbone_config(shapes)
        preprocessor_cfg: dict = {'type': 'SelfSupDataPreprocessor', **IMAGENET}
    else:
        backbone_cfg, preprocessor_cfg = _from_config(config)
    if backbone_cfg is None:
        raise UserError(
            f'the architecture of {checkpoint} is not known from its shapes: give the config it '
            'was trained by with --config.'
        )
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        backbone, preprocessor = MODELS.build(backbone_cfg), MODELS.build(preprocessor_cfg)
    load_state(backbone, state, checkpoint)
    device = torch.device(device or ('cuda' if torch.cuda.is_available() else 'cpu'))
    about = {
        'checkpoint': path.name,
        'checkpoint_sha256': sha256_of(path),
        'architecture': layouts.architecture(shapes),
        'normalisation': {key: preprocessor_cfg.get(key) for key in ('mean', 'std', 'to_rgb')},
    }
    backbone.to(device).eval()  # mmpretrain's ResNet returns nothing here
    return backbone, preprocessor.to(device), about


def _from_config(path: str) -> tuple[dict, dict]:
    config = read_config(path)
    model = config.get('model') or {}
    # mmpretrain's own configs have it beside the model, without a type
    preprocessor = model.get('data_preprocessor') or config.get('data_preprocessor')
    if not model.get('backbone') or not preprocessor:
        raise UserError(f'{path} has no model with a backbone and a data_preprocessor.')
    backbone = {**model['backbone'], 'init_cfg': None, 'frozen_stages': -1}
    if 'norm_cfg' in backbone:
        backbone['norm_cfg'] = {**backbone['norm_cfg'], 'type': 'BN'}  # the same in evaluation
    return backbone, {'type': 'ClsDataPreprocessor', **preprocessor}


def default_size(backbone: nn.Module) -> int:
    """The usual input size: 32 for a network with CIFAR's stem, else 224."""
    return 32 if type(backbone).__name__ == 'ResNet_CIFAR' else 224
