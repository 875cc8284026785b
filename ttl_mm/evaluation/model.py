"""The network of an evaluation: a checkpoint's backbone, and the normalization of its images."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope
from torch import nn

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import Architecture, architecture_of, read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.input_settings import InputSettings, read_input_settings
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import AdaptedBackbone, load_adapted, network_facts
from ttl_mm.models.backbones import find_backbone
from ttl_mm.models.build_loaded import build_loaded
from ttl_mm.models.libraries import give_module
from ttl_mm.registry import MODELS
from ttl_mm.zoo.cache import sha256_of

IMAGENET = {'mean': (123.675, 116.28, 103.53), 'std': (58.395, 57.12, 57.375), 'to_rgb': True}


def load_model(
    checkpoint: str,
    config: str | None = None,
    device: str | torch.device | None = None,
    network: str | nn.Module | None = None,
    untrained: int | None = None,
) -> tuple[nn.Module, nn.Module, dict]:
    """The backbone, its preprocessor, and where they came from.

    Args:
        checkpoint: a file in any layout that :mod:`ttl_mm.checkpoint.load` reads, or ``ttl_mm://name``.
        config: a config with the backbone and the ``data_preprocessor``. Without one the backbone
            is the one that the checkpoint names, or is read off the shapes, and images are
            normalized as the checkpoint says, or else as for ImageNet.
        device: a GPU if there is one, by default.
        network: ``timm/NAME`` and so on, for a file that does not name its network; or the module
            whose weights the file holds.
        untrained: draw new weights with this seed, as the library of the network does. Images
            are prepared as for the checkpoint.
    """
    path = resolve(checkpoint)
    content = read_checkpoint(path)
    trained = read_input_settings(path, content)
    size = trained.size if trained else None
    architecture = _architecture(path, content, config, network, size)
    if architecture is not None:
        backbone: nn.Module = load_adapted(architecture, path, content=content)
        backbone_cfg = architecture.config
        facts = network_facts(*architecture)
        preprocessor_cfg: dict = {
            'type': 'SelfSupDataPreprocessor', **IMAGENET, 'mean': facts.mean, 'std': facts.std,
        }  # fmt: skip
        if trained is not None:
            preprocessor_cfg |= _pixels(trained)
        if config is not None:
            preprocessor_cfg = _from_config(config)[1]
        title = architecture.network
    else:
        backbone, backbone_cfg, preprocessor_cfg, title = _by_shapes(
            path, content, checkpoint, config, trained
        )
    if untrained is not None:
        backbone = _drawn(backbone_cfg, untrained)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        preprocessor = MODELS.build(preprocessor_cfg)
    device = choose_device(device)
    about: dict = {
        'checkpoint': path.name,
        'checkpoint_sha256': sha256_of(path),
        'architecture': title,
        'normalization': {key: preprocessor_cfg.get(key) for key in ('mean', 'std', 'to_rgb')},
    }
    if trained is not None:
        about['trained_size'] = trained.size
        if trained.bands is not None:
            about['bands'] = trained.bands
    if untrained is not None:
        about['untrained'] = untrained
    backbone.to(device).eval()  # mmpretrain's ResNet returns nothing here
    return backbone, preprocessor.to(device), about


def _drawn(config: dict, seed: int) -> nn.Module:
    """The network of a config with new weights; the random state of the caller does not change.

    mmpretrain's ResNet would begin with residual branches of zero: good for training, but then an
    untrained network is little more than its shortcuts, and beaten too easily.
    """
    with torch.random.fork_rng(), DefaultScope.overwrite_default_scope('mmpretrain'):
        torch.manual_seed(seed)
        network = MODELS.build(dict(config))
        for module in network.modules():
            if hasattr(module, 'zero_init_residual'):
                module.zero_init_residual = False
        logger = MMLogger.get_current_instance()
        level = logger.level
        logger.setLevel(logging.ERROR)  # it would have a line about every tensor
        try:
            network.init_weights()
        finally:
            logger.setLevel(level)
    return network


def _architecture(
    path: Path,
    content: Mapping[str, Any],
    config: str | None,
    network: str | nn.Module | None,
    size: int | None,
) -> Architecture | None:
    """The network of a library that the user, the config or the file names."""
    if isinstance(network, nn.Module):
        network = give_module(network, size)
    if network is not None:
        find_backbone(network)  # which refuses a name that is not known
        return architecture_of(network)
    if config is not None:
        return architecture_of((read_config(config).get('model') or {}).get('backbone'))
    return read_architecture(path, content)


def _by_shapes(
    path: Path,
    content: Mapping[str, Any],
    checkpoint: str,
    config: str | None,
    trained: InputSettings | None,
) -> tuple[nn.Module, dict, dict, str]:
    """A network of mmpretrain by its config, or a ResNet by the shapes of its tensors."""
    state = load_backbone_state(path, content=content)
    shapes = shapes_of(state)
    if config is None:
        backbone_cfg = layouts.backbone_config(shapes)
        preprocessor_cfg: dict = {'type': 'SelfSupDataPreprocessor', **IMAGENET}
        if trained is not None:
            preprocessor_cfg |= _pixels(trained)
    else:
        backbone_cfg, preprocessor_cfg = _from_config(config)
    if backbone_cfg is None:
        raise UserError(
            f'the architecture of {checkpoint} is not known from its shapes: give the config it '
            'was trained by with --config.'
        )
    backbone = build_loaded(backbone_cfg, state, checkpoint)
    return backbone, backbone_cfg, preprocessor_cfg, layouts.architecture(shapes)


def _pixels(trained: InputSettings) -> dict:
    """How images are normalized, for a preprocessor."""
    pixels: dict = {'mean': trained.mean, 'std': trained.std}
    if trained.bands is not None:
        pixels |= {'type': 'ttl_mm.BandsPreprocessor', 'to_rgb': len(trained.mean) == 3}
    return pixels


def _from_config(path: str) -> tuple[dict, dict]:
    config = read_config(path)
    model = config.get('model') or {}
    # mmpretrain's own configs have it beside the model, without a type
    preprocessor = model.get('data_preprocessor') or config.get('data_preprocessor')
    if not model.get('backbone') or not preprocessor:
        raise UserError(f'{path} has no model with a backbone and a data_preprocessor.')
    if architecture_of(model['backbone']) is not None:
        return {}, {'type': 'ClsDataPreprocessor', **preprocessor}
    backbone = {**model['backbone'], 'init_cfg': None, 'frozen_stages': -1}
    if 'norm_cfg' in backbone:
        backbone['norm_cfg'] = {**backbone['norm_cfg'], 'type': 'BN'}  # the same in evaluation
    return backbone, {'type': 'ClsDataPreprocessor', **preprocessor}


def default_size(backbone: nn.Module, trained_size: int | None = None) -> int:
    """The size that the network was trained on; if unknown, that of its library, 32 or 224."""
    if isinstance(backbone, AdaptedBackbone):  # whose config may name sizes that were rounded
        return backbone.sizes.nearest(trained_size or backbone.facts.size)
    if trained_size is not None:
        return trained_size
    return 32 if type(backbone).__name__ == 'ResNet_CIFAR' else 224


def choose_device(device: str | torch.device | None) -> torch.device:
    """A device that is there; a GPU by default, where there is one.

    Raises:
        UserError: The one that was asked for is not there.
    """
    try:
        chosen = torch.device(device or ('cuda' if torch.cuda.is_available() else 'cpu'))
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or ['unknown'])[0].rstrip('.')
        raise UserError(f'--device {device} cannot be used ({reason}): take another one.') from None
    return chosen
