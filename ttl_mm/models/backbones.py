"""Networks by name, as ``--backbone`` takes them."""

import fnmatch
from difflib import get_close_matches
from typing import Any, NamedTuple

from mmengine.registry import DefaultScope

from ttl_mm.checkpoint.architecture import Architecture
from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import network_facts
from ttl_mm.models.build_loaded import WithoutWeights
from ttl_mm.models.libraries import LIBRARIES, library_names
from ttl_mm.models.view_sizes import ViewSizes
from ttl_mm.registry import MODELS

_WIDTHS = {18: 512, 34: 512, 50: 2048, 101: 2048, 152: 2048}  # depth to channels of the last stage


class Pixels(NamedTuple):
    """Mean and standard deviation of red, green and blue, from 0 to 255."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


class Backbone(NamedTuple):
    """A network that a name stands for."""

    config: dict[str, Any]  # for MODELS.build
    width: int  # of its features
    sizes: ViewSizes  # of the images that it can be trained on
    norm: str = 'batch'  # or 'layer', 'both' or 'none'
    pixels: Pixels | None = None  # of its library, where it is of one
    one_size: bool = False  # whether it is built for the size of a run
    own_size: int | None = None  # edge of the images that its library uses

    def config_for(self, size: int) -> dict[str, Any]:
        """The config of the network for images of this size."""
        return {**self.config, 'size': size} if self.one_size else self.config


def backbone_names() -> list[str]:
    """The short names that :func:`find_backbone` knows, beside those of the libraries."""
    return [f'resnet{depth}{stem}' for stem in ('', '_cifar') for depth in _WIDTHS]


def installed_names() -> list[str]:
    """The names of all libraries that are installed."""
    names = []
    for library in LIBRARIES:
        try:
            names += library_names(library)
        except UserError:  # not installed
            continue
    return names


def matching_names(pattern: str | None) -> list[str]:
    """The names of the libraries, then the short ones, that a pattern or a part of them matches."""
    names = [*installed_names(), *backbone_names()]
    if pattern is None:
        return names
    if any(sign in pattern for sign in '*?['):
        return fnmatch.filter(names, pattern)
    return [name for name in names if pattern in name]


def network_summary(name: str) -> str:
    """Millions of weights, width of the features and sizes of a network; or why it is none."""
    try:
        backbone = find_backbone(name)
    except UserError as error:
        return f'not usable: {error}'
    if backbone.pixels is None:
        with DefaultScope.overwrite_default_scope('mmpretrain'), WithoutWeights():
            count = sum(p.numel() for p in MODELS.build(backbone.config).parameters())
    else:
        count = network_facts(name).parameters
    return f'{count / 1e6:7.1f} M  {backbone.width:8}  {backbone.sizes}'


def find_backbone(name: str) -> Backbone:
    """The network called ``name``.

    ``resnet18``, ``34``, ``50``, ``101`` and ``152`` are the usual ones; with ``_cifar`` they begin
    with a 3 x 3 convolution of stride 1 instead, for images of about 32 pixels. ``timm/NAME``,
    ``torchvision/NAME`` and ``mmpretrain/NAME`` are those of the libraries.

    >>> find_backbone('resnet50').width
    2048
    """
    library = name.partition('/')[0]
    if library in LIBRARIES and name in library_names(library):
        facts = network_facts(name)
        return Backbone(
            Architecture(name).config, facts.width, facts.buildable or facts.sizes, facts.norm,
            Pixels(facts.mean, facts.std), facts.buildable is not None, facts.size,
        )  # fmt: skip
    if name not in backbone_names():
        raise UserError(f'backbone {name} is no network that is known here: {nearest(name)}.')
    depth = int(name.removeprefix('resnet').removesuffix('_cifar'))
    cifar = name.endswith('_cifar')
    config = {'type': 'ResNet_CIFAR' if cifar else 'ResNet', 'depth': depth}
    return Backbone(config, _WIDTHS[depth], ViewSizes(8 if cifar else 32))


def nearest(name: str) -> str:
    """A clause with the names next to one that is not known."""
    if '/' not in name:
        known = backbone_names()
        same = [full for full in installed_names() if full.partition('/')[2] == name]
        near = same or get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    else:
        near = get_close_matches(name, installed_names(), n=3, cutoff=0.4)
    if near:
        return f'the nearest names are {", ".join(near)}'
    return 'known are resnet18 and such, and what `ttl backbones` lists'
