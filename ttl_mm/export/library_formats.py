"""How the network of a library is stored: in its own layout, and in those that take any network."""

import json
import warnings
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ttl_mm.checkpoint.architecture import Architecture
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.export.formats import (
    Format,
    Meta,
    Network,
    State,
    need,
    read_onnx,
    write_bare,
    write_openmmlab,
    write_safetensors,
)
from ttl_mm.models.adapted_backbone import AdaptedBackbone, load_adapted, network_facts, pool
from ttl_mm.models.libraries import GIVEN, build_network, remove_classifier, timm_options

OPSET = 17

_PLAIN = """\
from ttl_mm.models import AdaptedBackbone; import torch
network = AdaptedBackbone({arguments})
network.load_state_dict(torch.load({path!r}, weights_only=True)['state_dict'])"""
_GIVEN = """\
import torch  # and make `network`, the module that was trained
network.load_state_dict(torch.load({path!r}, weights_only=True)['state_dict'])"""
_TORCHVISION = """\
network = torchvision.models.get_model({name!r}{size})
network.{classifier} = torch.nn.Identity()
network.load_state_dict(torch.load({path!r}, weights_only=True))"""


def library_formats(architecture: Architecture) -> dict[str, Format]:
    """The layouts that a network of a library can be written in, by name."""
    read, library = partial(_read_adapted, architecture=architecture), architecture.library
    plain = _GIVEN if library == GIVEN else _PLAIN
    any_network = {
        'plain': Format('.pth', write_openmmlab, read, plain),
        'safetensors': Format(
            '.safetensors', write_safetensors, read, 'safetensors.torch.load_file({path!r})'
        ),
        'onnx': Format(
            '.onnx', partial(_write_onnx, architecture=architecture), _read_onnx,
            "onnxruntime.InferenceSession({path!r}).run(['features'], {{'images': normalized}})",
            keeps_tensors=False,
        ),
    }  # fmt: skip
    own = {
        'timm': Format(
            '.pth', write_bare, partial(_read_strictly, architecture=architecture),
            'timm.create_model({name!r}, num_classes=0{options}, checkpoint_path={path!r})',
        ),
        'torchvision': Format(
            '.pth', write_bare, partial(_read_strictly, architecture=architecture), _TORCHVISION
        ),
        'mmpretrain': Format(
            '.pth', partial(write_openmmlab, prefix='backbone.'), read,
            "init_cfg=dict(type='Pretrained', checkpoint={path!r}, prefix='backbone.')",
        ),
    }  # fmt: skip
    return {**any_network, **({library: own[library]} if library in own else {})}


def adapted_network(
    architecture: Architecture,
    source: str | Path,
    prefix: str | None = None,
    content: Mapping[str, Any] | None = None,
) -> Network:
    """The network with the weights of the file ``source``: images to features (N, C)."""
    backbone = load_adapted(architecture, source, prefix, content).eval()
    return lambda images: pool(backbone(images))


def check_size(architecture: Architecture, path: Path) -> tuple[int, int]:
    """Size of the images that an exported file is checked on; a traced graph takes only one."""
    if path.suffix == '.onnx':
        height, width = (
            need('onnxruntime', 'onnx').InferenceSession(str(path)).get_inputs()[0].shape[2:]
        )
        return height, width
    edge = network_facts(*architecture).sizes.nearest(96)
    return edge, edge


def library_hint(path: str | Path, to: str, architecture: Architecture) -> str:
    """Code that loads a file that one of :func:`library_formats` has written."""
    name, size = architecture.name, architecture.size
    classifier, options = '', {'img_size': size} if size else {}
    if to == 'timm' and not size:
        options = timm_options(name)
    if to == 'torchvision':
        network = need('torchvision.models', to).get_model(name)
        classifier = remove_classifier(network, name)
    return library_formats(architecture)[to].use.format(
        path=str(path),
        name=name,
        classifier=classifier,
        arguments=repr(architecture.network) + (f', size={size}' if size else ''),
        size=f', image_size={size}' if size else '',
        options=''.join(f', {key}={value}' for key, value in options.items()),
    )


def _read_adapted(path: Path, meta: Meta, architecture: Architecture) -> Network:
    return adapted_network(architecture, path)


def _read_strictly(path: Path, meta: Meta, architecture: Architecture) -> Network:
    """The library's own network, with the tensors of the file and no others."""
    network = build_network(*architecture).network
    network.load_state_dict(read_checkpoint(path), strict=True)
    network.eval()
    return lambda images: pool(network(images))


class _Features(nn.Module):
    """As ONNX computes it: images (N, 3, H, W) to features (N, C)."""

    def __init__(self, backbone: AdaptedBackbone) -> None:
        super().__init__()
        self.net = backbone.net

    def forward(self, images: Tensor) -> Tensor:
        return pool(self.net(images))


def _write_onnx(state: State, meta: Meta, path: Path, architecture: Architecture) -> None:
    """Trace the network on images of one size, the only ones that the graph takes.

    It is the size of the training; that of the library if it is not known, or if torch can trace
    only that: then the positions of a network need not be interpolated, nor its windows padded.
    """
    onnx = need('onnx', 'onnx')
    facts = network_facts(*architecture)
    backbone = AdaptedBackbone(*architecture)
    backbone.load_state_dict(state)
    network = _Features(backbone).eval()
    trained = facts.sizes.nearest((meta.get('input') or {'size': facts.size})['size'])
    tries = [(_with_positions(network, trained), trained), (network, facts.size)]
    for number, (features, edge) in enumerate(tries, 1):
        try:
            _trace(features, edge, path)
            break
        except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
            if number == len(tries):
                reason = str(error).strip().splitlines()[0][:200]
                raise UserError(f'onnx has no {architecture.network}: {reason}') from error
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {'ttl_mm': json.dumps(meta, sort_keys=True)})
    onnx.save(model, path)


def _trace(network: nn.Module, edge: int, path: Path) -> None:
    options: dict[str, Any] = {
        'input_names': ['images'], 'output_names': ['features'], 'opset_version': OPSET,
        'dynamic_axes': {'images': {0: 'n'}, 'features': {0: 'n'}}, 'dynamo': False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # about branches that depend on the size, which is fixed
        torch.onnx.export(network, (torch.zeros(2, 3, edge, edge),), str(path), **options)


@torch.no_grad()
def _with_positions(network: _Features, edge: int) -> nn.Module:
    """The network with positions interpolated once, where timm can do that and nothing changes."""
    changed = deepcopy(network)
    net: Any = changed.net
    if not isinstance(getattr(net, 'pos_embed', None), Tensor) or not hasattr(
        net, 'set_input_size'
    ):
        return network
    images = torch.randn(2, 3, edge, edge, generator=torch.Generator().manual_seed(0))
    expected = network(images)
    net.set_input_size(img_size=edge)
    same = torch.allclose(changed(images), expected, atol=1e-6, rtol=1e-5)
    return changed if same else network


def _read_onnx(path: Path, meta: Meta) -> Network:
    return read_onnx(path, meta, output='features')
