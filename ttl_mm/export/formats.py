"""How each tool stores a backbone, and how it computes with it.

A :class:`Format` has a function that writes the tensors and one that builds, from the file alone,
what computes the feature map.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import load_backbone_state, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.export.onnx_graph import resnet_graph
from ttl_mm.models.build_loaded import build_loaded  # torchvision and timm can be imported now

State = dict[str, Tensor]
Meta = dict[str, Any]
Network = Callable[[Tensor], Tensor]  # images (N, 3, H, W) -> last feature map (N, C, h, w)


@dataclass(frozen=True)
class Format:
    """How one tool stores a backbone, and how it computes with it."""

    suffix: str
    write: Callable[[State, Meta, Path], None]
    read: Callable[[Path, Meta], Network]
    use: str  # how to load the file, in one line: see usage_hint
    keeps_tensors: bool = True  # whether the file has every tensor under its name


def mmpretrain_network(config: dict[str, Any], state: State, source: str | Path) -> Network:
    """A ResNet of mmpretrain with the weights of the file ``source``, in evaluation mode."""
    net = build_loaded(config, state, str(source))
    net.eval()
    return lambda images: net(images)[-1]


def need(module: str, to: str) -> Any:
    """Import a module that an export is checked with."""
    try:
        return import_module(module)
    except (ImportError, AssertionError) as error:  # mmdet asserts the versions it wants
        extra = 'detection' if to == 'mmdet' else 'export'
        raise UserError(
            f'export to {to} is checked with {module.split(".")[0]}, which cannot be imported '
            f"({error}): run `make full`, or pip install 'ttl-mm[{extra}]'."
        ) from error


def _refuse(options: set[str], to: str, meta: Meta) -> None:
    """Say so where the tool has no network with these options of mmpretrain's."""
    cifar = {'cifar'} if meta['backbone']['type'] != 'mmpretrain.ResNet' else set()
    if options & (meta['backbone'].keys() | cifar):
        raise UserError(f'{to} has no {meta["architecture"]}: export it to mmpretrain instead.')


def save(content: dict[str, Any], path: Path) -> None:
    """``torch.save``, the same bytes for every path."""
    with path.open('wb') as file:  # given a path, torch would write its name into the file
        torch.save(content, file)


def _read_by_house_names(path: Path, meta: Meta, prefix: str | None = None) -> Network:
    return mmpretrain_network(meta['backbone'], load_backbone_state(path, prefix), path)


# mmpretrain and mmdet: {'state_dict', 'meta'}, as their own tools write


def write_openmmlab(state: State, meta: Meta, path: Path, prefix: str = '') -> None:
    """Weights below ``state_dict`` and facts below ``meta``, as mmengine saves them."""
    state = {prefix + name: tensor for name, tensor in state.items()}
    save({'meta': meta, 'state_dict': state}, path)


def _read_mmdet(path: Path, meta: Meta) -> Network:
    _refuse({'cifar'}, 'mmdet', meta)
    options = {key: value for key, value in meta['backbone'].items() if key != 'type'}
    net = need('mmdet.models', 'mmdet').ResNet(**options)
    load_state(net, tensors_of(read_checkpoint(path)), str(path))
    net.eval()
    return lambda images: net(images)[-1]


# torchvision and timm: a bare dict of tensors

_UNUSUAL = {'cifar', 'deep_stem', 'avg_down', 'base_channels'}


def write_bare(state: State, meta: Meta, path: Path) -> None:
    """A dict of tensors without anything around it."""
    save(dict(state), path)


def _read_torchvision(path: Path, meta: Meta) -> Network:
    _refuse({*_UNUSUAL, 'in_channels'}, 'torchvision', meta)
    net = need('torchvision.models', 'torchvision').get_model(f'resnet{meta["backbone"]["depth"]}')
    net.fc = nn.Identity()
    load_state(net, read_checkpoint(path), str(path))
    trunk = nn.Sequential(*list(net.children())[:-2])  # without avgpool and fc
    return trunk.eval()


def _read_timm(path: Path, meta: Meta) -> Network:
    _refuse(_UNUSUAL, 'timm', meta)
    name = f'resnet{meta["backbone"]["depth"]}'
    channels = meta['backbone'].get('in_channels', 3)
    net = need('timm', 'timm').create_model(name, num_classes=0, in_chans=channels)
    load_state(net, read_checkpoint(path), str(path))
    return net.eval().forward_features


def write_safetensors(state: State, meta: Meta, path: Path) -> None:
    """Tensors, with the facts as JSON in the header of the file."""
    from safetensors.torch import save_file

    save_file(dict(state), path, metadata={'ttl_mm': json.dumps(meta, sort_keys=True)})


# detectron2: a pickle of NumPy arrays under names of its own


class _ArrayPickler(pickle.Pickler):
    """Spells an array as a call of ``numpy.ndarray``, which every version of NumPy can load."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, np.ndarray):
            return NotImplemented
        return np.ndarray, (obj.shape, obj.dtype.str, bytearray(obj.tobytes()))


def _write_detectron2(state: State, meta: Meta, path: Path) -> None:
    _refuse({'cifar', 'deep_stem', 'avg_down'}, 'detectron2', meta)
    state = {n: t.float() if t.is_floating_point() else t for n, t in state.items()}
    model = {layouts.to_detectron2(name): tensor.numpy() for name, tensor in state.items()}
    content = {'model': model, '__author__': meta['written_by'], 'matching_heuristics': True}
    with path.open('wb') as file:
        _ArrayPickler(file, protocol=4).dump(content)


# ONNX: feature map and pooled features, computed by onnxruntime


def _write_onnx(state: State, meta: Meta, path: Path) -> None:
    onnx = need('onnx', 'onnx')
    _refuse({'deep_stem', 'avg_down'}, 'onnx', meta)
    model = resnet_graph(state, meta)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def read_onnx(path: Path, meta: Meta, output: str = 'feature_map') -> Network:
    """One output of the graph, computed by onnxruntime on the CPU."""
    runtime = need('onnxruntime', 'onnx')
    session = runtime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    run = partial(session.run, [output])
    return lambda images: torch.from_numpy(run({'images': images.numpy()})[0])


_PLAIN = """\
import torch, {module}
network = {module}.{network}
network.load_state_dict(torch.load({path!r}, weights_only=True)['state_dict'], strict=False)"""

FORMATS = {
    'plain': Format('.pth', write_openmmlab, _read_by_house_names, _PLAIN),
    'mmpretrain': Format(
        '.pth',
        partial(write_openmmlab, prefix='backbone.'),
        partial(_read_by_house_names, prefix='backbone.'),
        "init_cfg=dict(type='Pretrained', checkpoint={path!r}, prefix='backbone.')",
    ),
    'mmdet': Format(
        '.pth', write_openmmlab, _read_mmdet,
        "init_cfg=dict(type='Pretrained', checkpoint={path!r})",
    ),
    'torchvision': Format(
        '.pth', write_bare, _read_torchvision,
        'torchvision.models.resnet{depth}().load_state_dict('
        'torch.load({path!r}, weights_only=True), strict=False)  # all but fc',
    ),
    'timm': Format(
        '.pth', write_bare, _read_timm,
        "timm.create_model('resnet{depth}', num_classes=0, checkpoint_path={path!r})",
    ),
    'detectron2': Format(
        '.pkl', _write_detectron2, _read_by_house_names,
        'MODEL.WEIGHTS {shell_path} MODEL.RESNETS.DEPTH {depth} '
        'MODEL.RESNETS.STRIDE_IN_1X1 False INPUT.FORMAT RGB',
    ),
    'safetensors': Format(
        '.safetensors', write_safetensors, _read_by_house_names,
        'safetensors.torch.load_file({path!r})',
    ),
    'onnx': Format(
        '.onnx', _write_onnx, read_onnx,
        "onnxruntime.InferenceSession({path!r}).run(['features'], {{'images': normalized}})",
    ),
}  # fmt: skip
