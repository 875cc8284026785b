"""A model of the zoo in one call."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ttl_mm.checkpoint.load import fetch_checkpoint, load_backbone_state
from ttl_mm.errors import UserError
from ttl_mm.models.build_loaded import build_loaded
from ttl_mm.registry import MODELS
from ttl_mm.zoo.manifest import find_entry


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
        pretrained: True downloads and checks the weights of the zoo; False leaves the network
            random; a path loads your own checkpoint of the same architecture, in any layout.
        device: Where to put the model.
        allow_unhashed: Accept a download for which nobody has published a hash.
        overrides: Options of the backbone, such as ``out_indices=(0, 1, 2, 3)``.

    It maps images (N, 3, H, W), normalized as ``ttl zoo list`` says, to a tuple of feature maps.

    >>> model = get_model('ttl_r18_digits', pretrained=False)
    >>> [maps] = model(torch.zeros(1, 3, 16, 16))
    """
    entry = find_entry(name)
    if entry.backbone is None:
        raise UserError(f'the manifest does not say which network {name} is: build it yourself.')
    config = {**entry.backbone, **overrides}  # of a few known networks and options
    if pretrained is True:
        pretrained = fetch_checkpoint(entry, allow_unhashed=allow_unhashed)
    if pretrained is False:
        backbone = MODELS.build(config)
    else:
        backbone = build_loaded(config, load_backbone_state(pretrained), str(pretrained))
    backbone.to(device).eval()  # which returns nothing in mmpretrain
    return backbone
