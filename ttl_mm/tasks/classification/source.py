"""The backbone that a classifier starts from: its network, and the images that it takes."""

from dataclasses import dataclass
from typing import Any

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import default_size, load_model


@dataclass(frozen=True)
class Source:
    """Weights in any layout that ``ttl import`` reads, and what they say about their network."""

    weights: str
    backbone: dict[str, Any]  # its config
    width: int  # of its features
    size: int  # edge of the images in pixels
    mean: tuple[float, ...]
    std: tuple[float, ...]


def open_source(weights: str, size: int | None = None) -> Source:
    """Read a checkpoint; every tensor must be one of a known network.

    Raises:
        UserError: The file is refused, or its network is not known.
    """
    backbone, _, about = load_model(weights, device='cpu')
    path = resolve(weights)
    content = read_checkpoint(path)
    architecture = read_architecture(path, content)
    if architecture is not None:
        config = architecture.config
    else:  # known: load_model has built it by these shapes
        state = load_backbone_state(path, content=content)
        config = layouts.backbone_config(shapes_of(state)) or {}
    width: Any = backbone.feat_dim
    pixels = about['normalization']
    edge = size or default_size(backbone, about.get('trained_size'))
    sizes: Any = getattr(backbone, 'sizes', None)
    if sizes is not None and not sizes.allows(edge):
        raise UserError(f'--size {edge}: {about["architecture"]} takes {sizes}.')
    return Source(
        str(path.resolve()), config, width, edge, tuple(pixels['mean']), tuple(pixels['std'])
    )
