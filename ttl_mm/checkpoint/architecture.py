"""The network that a file of weights says it holds, by its name in a library."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.checkpoint.safetensors_file import read_header
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import WEIGHTS, open_regular

ADAPTED = 'ttl_mm.AdaptedBackbone'  # the type in configs
_NAME = re.compile(r'(timm|torchvision|mmpretrain|module)/[\w.+-]{1,200}')


class Architecture(NamedTuple):
    """A network of timm, torchvision or mmpretrain; ``size`` if it is built for one size.

    ``module/NAME`` is one that was given in Python, which a file can name and not build.
    """

    network: str
    size: int | None = None

    @property
    def library(self) -> str:
        """The part of the name before the slash."""
        return self.network.partition('/')[0]

    @property
    def name(self) -> str:
        """What the library calls it."""
        return self.network.partition('/')[2]

    @property
    def config(self) -> dict[str, Any]:
        """As ``model.backbone`` of a config."""
        size = {} if self.size is None else {'size': self.size}
        return {'type': ADAPTED, 'network': self.network, **size}


def architecture_of(backbone: Any) -> Architecture | None:
    """The network that ``model.backbone`` of a config names; None for any other value."""
    if isinstance(backbone, str):
        backbone = {'type': ADAPTED, 'network': backbone}
    if not isinstance(backbone, Mapping) or backbone.get('type') != ADAPTED:
        return None
    network, size = backbone.get('network'), backbone.get('size')
    if not isinstance(network, str) or not _NAME.fullmatch(network):
        return None
    return Architecture(network, size if type(size) is int else None)


def declared_architecture(content: Mapping[str, Any]) -> Architecture | None:
    """What a checkpoint of a run, or a backbone exported from one, says it holds."""
    with suppress(KeyError, TypeError):
        if found := architecture_of(content['meta']['backbone']):
            return found
    with suppress(KeyError, TypeError, ValueError):
        config = parse_json(content['ttl_mm']['config'], allow_nan=True)
        return architecture_of(config['model']['backbone'])
    return None


def read_architecture(path: Path, content: Mapping[str, Any] | None = None) -> Architecture | None:
    """The same, of a file; ``content`` is what is in it, if it was read already."""
    if path.suffix == '.safetensors':
        with open_regular(path, WEIGHTS) as file, suppress(ValueError, KeyError):
            return declared_architecture({'meta': parse_json(read_header(file)[1]['ttl_mm'])})
        return None
    return declared_architecture(read_checkpoint(path) if content is None else content)
