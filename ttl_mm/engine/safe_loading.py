"""Close every way on which mmengine would execute or trust a checkpoint file.

``load_from``, ``init_cfg=dict(type='Pretrained', ...)`` and the like all ask mmengine's
CheckpointLoader, which has a function per scheme of address.
"""

from pathlib import Path
from typing import Any

from mmengine.runner import CheckpointLoader

from ttl_mm.errors import UserError
from ttl_mm.zoo.read import read_checkpoint

REMOTE = [
    'http://',
    'https://',
    'torchvision://',
    'modelzoo://',
    'open-mmlab://',
    'openmmlab://',
] + ['mmcls://', 'pavi://', r'(\S+\:)?s3://', r'(\S+\:)?petrel://']


def use_safe_loading() -> None:
    """From now on this process reads checkpoints as data, from files or the zoo (``ttl_mm://``)."""
    CheckpointLoader.register_scheme('', _from_file, force=True)
    CheckpointLoader.register_scheme(REMOTE, _refuse, force=True)


def _from_file(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    return read_checkpoint(Path(filename).expanduser())


def _refuse(filename: str, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
    raise UserError(
        f'{filename} is refused, nobody would check what comes: take a model of the zoo '
        '(ttl_mm://NAME), or download the file, check its sha256 and give its path.'
    )
