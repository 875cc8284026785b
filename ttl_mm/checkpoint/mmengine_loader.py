"""Make mmengine read checkpoint files as data, never as code.

``load_from``, ``init_cfg=dict(type='Pretrained', ...)`` and the like all ask mmengine's
CheckpointLoader, which has a function per scheme of address. :mod:`ttl_mm.registry` calls
:func:`use_safe_loading` when it is imported, so it holds in every command, hook and worker.
"""

from pathlib import Path
from typing import Any

import torch
from mmengine.runner import CheckpointLoader
from torch import Tensor

from ttl_mm.checkpoint.load import fetch_checkpoint, load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.zoo.manifest import SCHEME, find_entry

REMOTE = [
    'http://',
    'https://',
    'torchvision://',
    'modelzoo://',
    'open-mmlab://',
    'openmmlab://',
    'mmcls://',
    'pavi://',
    r'(\S+\:)?s3://',
    r'(\S+\:)?petrel://',
]


def use_safe_loading() -> None:
    """From now on this process reads checkpoints as data, from files or the zoo (``ttl_mm://``)."""
    CheckpointLoader.register_scheme('', _from_file, force=True)
    CheckpointLoader.register_scheme(REMOTE, _refuse, force=True)
    CheckpointLoader.register_scheme(SCHEME, load_from_zoo, force=True)


def _from_file(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    return read_checkpoint(Path(filename).expanduser())


def _refuse(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    raise UserError(
        f'{filename} is refused, because nothing would check what arrives: use a model of the zoo '
        '(ttl_mm://NAME), or download the file, check its sha256 and give its path.'
    )


def load_from_zoo(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    """What mmengine calls for ``checkpoint='ttl_mm://name'``.

    The tensors of a backbone come under both spellings that configs ask for: bare (mmdet's
    ``init_cfg``) and below ``backbone.`` (``prefix='backbone.'``, ``load_from``), because mmengine
    does not complain about a checkpoint that matches no tensor.
    """
    entry = find_entry(filename.removeprefix(SCHEME))
    path = fetch_checkpoint(entry)
    if entry.kind != 'backbone':
        return read_checkpoint(path)
    state = {
        name: _moved(tensor, map_location) for name, tensor in load_backbone_state(path).items()
    }
    return {'state_dict': {**state, **{f'backbone.{name}': t for name, t in state.items()}}}


def _moved(tensor: Tensor, map_location: Any) -> Tensor:
    return tensor.to(map_location) if isinstance(map_location, (str, torch.device)) else tensor
