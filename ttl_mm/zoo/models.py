"""A zoo entry as a model in one call, and ``ttl_mm://name`` as a checkpoint in a config."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ttl_mm.zoo.load import load_backbone_state, load_into
from ttl_mm.zoo.manifest import SCHEME, find_entry
from ttl_mm.zoo.progress import fetch_visibly
from ttl_mm.zoo.read import read_checkpoint


def get_model(
    name: str,
    pretrained: bool | str | Path = True,
    device: str | torch.device = 'cpu',
    *,
    allow_unhashed: bool = False,
    **overrides: Any,
) -> nn.Module:
    """The backbone of a zoo entry, in evaluation mode.

    Args:
        name: A name that ``ttl zoo list`` shows.
        pretrained: True for the weights of the zoo, fetched and checked; False for none; a path
            for your own checkpoint of the same architecture, in any layout.
        device: Where to put it.
        allow_unhashed: Fetch a file of which nobody has published the hash.
        overrides: Options of the backbone, such as ``out_indices=(0, 1, 2, 3)``.

    Returns:
        The model: it maps images (N, 3, H, W), normalised as ``ttl zoo list`` says, to a tuple of
        feature maps.
    """
    from ttl_mm.registry import MODELS

    entry = find_entry(name)
    backbone = MODELS.build({**entry.backbone, **overrides})
    if pretrained is True:
        pretrained = fetch_visibly(entry, allow_unhashed=allow_unhashed)
    if pretrained is not False:
        load_into(backbone, load_backbone_state(pretrained))
    backbone.to(device).eval()
    return backbone


def load_from_zoo(filename: str, map_location: Any = None) -> dict[str, Any]:
    """What mmengine calls for ``checkpoint='ttl_mm://name'``.

    The tensors of a backbone come under both spellings that configs ask for: bare (mmdet's
    ``init_cfg``) and below ``backbone.`` (``prefix='backbone.'``, ``load_from``), since mmengine
    passes in silence over a checkpoint that matches nothing.
    """
    entry = find_entry(filename.removeprefix(SCHEME))
    path = fetch_visibly(entry)
    if entry.kind != 'backbone':
        return read_checkpoint(path)
    state = {
        name: _moved(tensor, map_location) for name, tensor in load_backbone_state(path).items()
    }
    return {'state_dict': {**state, **{f'backbone.{name}': t for name, t in state.items()}}}


def _moved(tensor: Tensor, map_location: Any) -> Tensor:
    return tensor.to(map_location) if isinstance(map_location, (str, torch.device)) else tensor
