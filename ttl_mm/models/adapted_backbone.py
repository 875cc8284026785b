"""One backbone around any network: of timm, torchvision or mmpretrain by name, or a module."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.dist import get_world_size
from mmengine.model import BaseModule, initialize
from torch import Tensor, nn

from ttl_mm.checkpoint.architecture import Architecture
from ttl_mm.checkpoint.coverage import compare, load_state
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.compat.quiet_logging import quiet_outside_runs
from ttl_mm.compat.torch_private import BatchNorm
from ttl_mm.errors import UserError
from ttl_mm.models.build_loaded import WithoutWeights
from ttl_mm.models.libraries import Built, build_network, built_of
from ttl_mm.models.view_sizes import ViewSizes, find_sizes, patch_size
from ttl_mm.registry import MODELS

STAGE = 4  # the last, in the terms of mmpretrain's ResNet


class Facts(NamedTuple):
    """What is known about a network without weights."""

    width: int  # of its features
    sizes: ViewSizes  # of the images that it takes
    buildable: ViewSizes | None  # the sizes it can be built for, where it takes only one
    size: int  # of the images that its library uses
    mean: tuple[float, ...]
    std: tuple[float, ...]
    parameters: int
    norm: str  # 'batch', 'layer' (or group), 'both' or 'none'
    state: Mapping[str, Tensor]  # its tensors, without memory


def pool(outputs: Any) -> Tensor:
    """Features (N, C) from whatever a network returns; of several outputs the last counts.

    A map (N, C, H, W) is averaged. Tokens (N, L, C) are averaged if L is a square number; if not,
    the first is taken to be the class token. A vector (N, C) stays.
    """
    if isinstance(outputs, Mapping):
        outputs = list(outputs.values())
    if hasattr(outputs, 'logits'):  # GoogLeNet and Inception with their side branches
        outputs = outputs.logits
    while isinstance(outputs, Sequence) and len(outputs):
        outputs = outputs[-1]
    if isinstance(outputs, Tensor) and outputs.is_floating_point():
        if outputs.ndim == 4:
            return outputs.mean(dim=(2, 3))
        if outputs.ndim == 3:
            square = isqrt(outputs.shape[1]) ** 2 == outputs.shape[1]
            return outputs.mean(dim=1) if square else outputs[:, 0]
        if outputs.ndim == 2:
            return outputs
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    raise UserError(
        f'a network returned {shape}, which are no features: it must map images (N, 3, H, W) to a '
        'map (N, C, H, W), tokens (N, L, C) or vectors (N, C).'
    )


@MODELS.register_module()
class AdaptedBackbone(BaseModule):
    """Any network as a backbone: images (N, 3, H, W) to one map (N, C, 1, 1), for any neck.

    ::

        backbone=dict(type='ttl_mm.AdaptedBackbone', network='timm/convnext_atto')

    Its state dict is that of the network, under the names of its library.

    Args:
        network: ``timm/NAME``, ``torchvision/NAME``, ``mmpretrain/NAME``, or a module that maps
            images to features, see :func:`pool`.
        size: Edge of the images to build it for, where it takes only one size; of a module, an
            edge that it takes (default: 224).
    """

    out_indices = (STAGE - 1,)
    stages = (STAGE,)

    def __init__(
        self, network: str | nn.Module, size: int | None = None, init_cfg: Any = None
    ) -> None:
        super().__init__(init_cfg)
        if isinstance(network, nn.Module):
            self.name = type(network).__name__
            self.net = network
            self.facts = module_facts(network, size)
        else:
            self.name = network
            self.net = build_network(network, size).network
            self.facts = network_facts(network, size)
        if get_world_size() > 1 and torch.cuda.is_available():
            self.net = synchronized(self.net)
        self.register_load_state_dict_pre_hook(_below_net)

    @property
    def sizes(self) -> ViewSizes:
        """Of the images that it takes."""
        return self.facts.sizes

    @property
    def feat_dim(self) -> int:
        """C; mmpretrain's ResNet calls it so."""
        return self.facts.width

    def init_weights(self) -> None:
        """Weights of a file; else those that the library has drawn already, or draws here.

        A module that was given keeps its own.
        """
        if self.init_cfg:
            initialize(self, self.init_cfg)
        elif isinstance(self.net, BaseModule) and self.name.startswith('mmpretrain/'):
            with quiet_outside_runs():
                self.net.init_weights()

    def forward(self, images: Tensor) -> tuple[Tensor]:
        for edge in images.shape[-2:]:
            if not self.sizes.allows(edge):
                raise UserError(f'{size_refusal(self.name, self.sizes, int(edge))}.')
        return (pool(self.net(images))[:, :, None, None],)

    def state_dict(self, *args: Any, prefix: str = '', **kwargs: Any) -> Any:
        """That of the network."""
        return self.net.state_dict(*args, prefix=prefix, **kwargs)


def _below_net(module: nn.Module, state: dict, prefix: str, *_: Any) -> None:
    """Put the names of the network back below ``net``, where the module has them."""
    for name in [name for name in state if name.startswith(prefix)]:
        state[f'{prefix}net.{name.removeprefix(prefix)}'] = state.pop(name)


def size_refusal(name: str, sizes: ViewSizes, edge: int) -> str:
    """Why images of an edge are refused, and which one to take."""
    return f'images of {edge} pixels: {name} takes {sizes}, for instance {sizes.nearest(edge)}'


def synchronized(network: nn.Module) -> nn.Module:
    """BatchNorm as SyncBN; timm's with an activation inside keeps it."""
    try:
        from timm.layers import convert_sync_batchnorm
    except ImportError:
        return nn.SyncBatchNorm.convert_sync_batchnorm(network)
    return convert_sync_batchnorm(network)


def load_adapted(
    architecture: Architecture,
    source: str | Path,
    prefix: str | None = None,
    content: Mapping[str, Any] | None = None,
) -> AdaptedBackbone:
    """The network with the weights of a file in any layout, all of which must be there.

    Shapes are compared before the network is built or used, see :func:`build_loaded`. ``content``
    is what is in the file, if it was read already.
    """
    expected = planned(*architecture).network.state_dict()
    state = load_backbone_state(source, prefix, expected, content)
    remedy = f'Give weights of {architecture.network}.'
    compare(expected, state, str(source)).require(1.0, remedy)
    backbone = AdaptedBackbone(*architecture)
    load_state(backbone, state, str(source))
    return backbone


def planned(name: str, size: int | None = None) -> Built:
    """The network of a library, without memory for its weights where it can be built so."""
    try:
        with WithoutWeights():
            return build_network(name, size)
    except UserError:  # some compute with their weights while they are built
        return build_network(name, size)


@cache
def network_facts(name: str, size: int | None = None) -> Facts:
    """What is known about the network of a library."""
    built = planned(name, size)
    facts = _look(built, name, lambda: build_network(name, size).network)
    if facts.sizes.only is None or size is not None:
        return facts
    return facts._replace(buildable=_buildable(name, facts, patch_size(built.network)))


def module_facts(network: nn.Module, size: int | None = None) -> Facts:
    """The same, of any module; ``size`` is the edge of an image that it takes."""
    return _look(built_of(network, size), type(network).__name__, lambda: deepcopy(network).cpu())


def _buildable(name: str, facts: Facts, patch: int) -> ViewSizes | None:
    """Sizes for which a network that takes only one can be built again."""

    def takes(edge: int) -> bool:
        try:
            return network_facts(name, edge).sizes.allows(edge)
        except UserError:
            return False

    sizes = find_sizes(takes, facts.size, max(patch, 8), stride=1)
    return sizes if sizes.only is None else None


def _look(built: Built, name: str, with_weights: Callable[[], nn.Module]) -> Facts:
    """Pass images without memory through the network; real ones if it looks at their values."""
    network, device = built.network.to('meta'), 'meta'
    state = network.state_dict()
    network.eval()  # which returns nothing in mmpretrain
    try:
        width = _features(network, built.size, device).shape[1]
    except UserError:
        raise
    except Exception:  # control flow that depends on values, or no features at all
        network, device = with_weights(), 'cpu'
        network.eval()
        width = _width_on_cpu(network, built.size, name)

    def takes(edge: int) -> bool:
        try:
            return _features(network, edge, device).shape[1] == width
        except Exception:  # each network refuses a size in its own way
            return False

    sizes = find_sizes(takes, built.size, patch_size(network), _stride(network, built.size, device))
    parameters = sum(p.numel() for p in network.parameters())
    return Facts(
        width, sizes, None, built.size, built.mean, built.std, parameters, _norm(network), state
    )


@torch.no_grad()
def _features(network: nn.Module, edge: int, device: str) -> Tensor:
    return pool(network(torch.zeros(2, 3, edge, edge, device=device)))


def _width_on_cpu(network: nn.Module, edge: int, name: str) -> int:
    try:
        return _features(network, edge, 'cpu').shape[1]
    except UserError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UserError(
            f'{name} computes no features of images (2, 3, {edge}, {edge}): {reason}'
        ) from error


@torch.no_grad()
def _stride(network: nn.Module, edge: int, device: str) -> int:
    """Pixels of an image for one of the smallest map inside the network; 1 without maps."""
    smallest = edge

    def look(layer: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal smallest
        if isinstance(output, Tensor) and output.ndim == 4 and output.shape[-1] > 1:
            smallest = min(smallest, output.shape[-1])

    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    handles = [layer.register_forward_hook(look) for layer in convolutions]
    try:
        _features(network, edge, device)
    finally:
        for handle in handles:
            handle.remove()
    return max(1, edge // smallest)


def _norm(network: nn.Module) -> str:
    """'both' where BatchNorm is beside LayerNorm or attention, as in hybrids such as MobileViT."""
    layers = list(network.modules())
    kinds = {type(layer).__name__.lower() for layer in layers}
    batch = {type(layer).__name__.lower() for layer in layers if isinstance(layer, BatchNorm)}
    others = any('norm' in kind for kind in kinds - batch)
    if batch:
        hybrid = any('layernorm' in kind or kind.endswith('attention') for kind in kinds)
        return 'both' if hybrid else 'batch'
    return 'layer' if others else 'none'
