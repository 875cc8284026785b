"""Make mmengine read checkpoint files as data, never as code.

``load_from``, ``init_cfg=dict(type='Pretrained', ...)`` and the like all ask mmengine's
CheckpointLoader, which has a function per scheme of address. :mod:`ttl_mm.registry` calls
:func:`use_safe_loading` when it is imported, so it holds in every command, hook and worker.
"""

from pathlib import Path
from typing import Any

from mmengine.runner import CheckpointLoader

from ttl_mm.checkpoint.load import (
    fetch_checkpoint,
    load_backbone_state,
    refuse_bad_tensors,
    tensors_of,
)
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.zoo.manifest import SCHEME, find_entry

_NAMES = ('http', 'https', 'torchvision', 'modelzoo', 'open-mmlab', 'openmmlab', 'mmcls', 'pavi')
REMOTE = [*(f'{name}://' for name in _NAMES), r'(\S+\:)?s3://', r'(\S+\:)?petrel://']


def use_safe_loading() -> None:
    """From now on this process reads checkpoints as data, from files or the zoo (``ttl_mm://``)."""
    CheckpointLoader.register_scheme('', _from_file, force=True)
    CheckpointLoader.register_scheme(REMOTE, _refuse, force=True)
    CheckpointLoader.register_scheme(SCHEME, load_from_zoo, force=True)


# Tensors stay on the CPU whatever ``map_location`` says: they are copied into the model from there.
def _from_file(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    content = read_checkpoint(Path(filename).expanduser())
    refuse_bad_tensors(tensors_of(content), filename, allow_empty=True)
    return content


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
    state = load_backbone_state(path)
    return {'state_dict': {**state, **{f'backbone.{name}': t for name, t in state.items()}}}
