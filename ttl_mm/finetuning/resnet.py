"""A ResNet by its stages, as detectors and segmentation networks are built on it."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.input_settings import read_input_settings
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import IMAGENET

_BACKBONE_KEYS: dict[str, Container] = {
    'type': {'mmpretrain.ResNet', 'mmpretrain.ResNet_CIFAR'},
    'depth': {18, 34, 50, 101, 152}, 'deep_stem': {True, False}, 'avg_down': {True, False},
    'stem_channels': range(1, 4096), 'base_channels': range(1, 4096),
}  # fmt: skip
_BRIGHTEST = 2**16  # value of a pixel


@dataclass(frozen=True)
class Backbone:
    """A ResNet by its shapes, and the pixels that it was trained on."""

    config: dict[str, Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weights: str = ''  # the file

    @property
    def channels(self) -> list[int]:
        """Of its four stages."""
        expansion = 4 if self.config['depth'] >= 50 else 1
        return [self.config.get('base_channels', 64) * expansion * 2**i for i in range(4)]

    @property
    def strides(self) -> list[int]:
        """Of its four stages; a stem for small images does not reduce them."""
        first = 1 if self.config['type'].endswith('CIFAR') else 4
        return [first * 2**i for i in range(4)]

    @property
    def width(self) -> int:
        """Channels of what is built on it: 256 for the usual ResNets, fewer for narrow ones."""
        return 4 * self.config.get('base_channels', 64)

    def start(self, random: bool) -> dict[str, Any] | None:
        """The ``init_cfg`` of a network that begins with the file, or with random weights."""
        if random:
            return None
        return {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': self.weights}

    @property
    def options(self) -> dict[str, Any]:
        """What tells this ResNet from the usual one of its depth."""
        return {k: v for k, v in self.config.items() if k not in ('type', 'depth')}


def checked_backbone(config: Any) -> dict[str, Any]:
    """The config of a ResNet that a file names, if it is nothing else.

    Raises:
        UserError: It is something else.
    """
    if not isinstance(config, Mapping) or not {'type', 'depth'} <= config.keys():
        raise UserError(f'the file names no ResNet as its backbone, but {config!r}.')
    for key, value in config.items():
        plain = type(value) in (bool, int, str)  # 64.0 is in a range, too, and no width
        if key not in _BACKBONE_KEYS or not plain or value not in _BACKBONE_KEYS[key]:
            raise UserError(f'the backbone of the file has {key}={value!r}, which is refused.')
    return dict(config)


@dataclass(frozen=True)
class Described:
    """What a file says about a network on a ResNet; its tensors are not looked at."""

    model: str
    classes: tuple[str, ...]
    size: int  # of the images in pixels
    mean: tuple[float, ...]
    std: tuple[float, ...]
    network: Any  # the config of the ResNet, if it is one

    def backbone(self) -> Backbone:
        """Raises UserError if it is no ResNet."""
        return Backbone(checked_backbone(self.network), self.mean, self.std)


def read_description(meta: Any, key: str) -> Described | None:
    """The description in a file of ours, None if there is none; ``key`` holds the model's name."""
    try:
        model, classes, pixels = meta[key], meta['classes'], meta['input']
        size, mean, std = (pixels[name] for name in ('size', 'mean', 'std'))
        network = meta['backbone']
    except (KeyError, TypeError, IndexError):
        return None
    if not (isinstance(model, str) and isinstance(classes, (list, tuple)) and type(size) is int):
        return None
    if not all(isinstance(name, str) for name in classes) or not 8 <= size <= 8192:
        return None
    if not (_three_numbers(mean) and _three_numbers(std)) or min(std) <= 0:
        return None
    return Described(model, tuple(classes), size, tuple(mean), tuple(std), network)


def _three_numbers(values: Any) -> bool:
    return (
        isinstance(values, (list, tuple))
        and len(values) == 3
        and all(type(v) in (int, float) and abs(v) <= _BRIGHTEST for v in values)  # and no NaN
    )


def open_backbone(weights: str) -> Backbone:
    """Read a checkpoint.

    Raises:
        UserError: It holds no ResNet.
    """
    path = resolve(weights)
    content = read_checkpoint(path)
    architecture = read_architecture(path, content)
    if architecture is not None:
        raise UserError(
            f'{weights} holds {architecture.network}, and the stages of a ResNet are needed here: '
            'pre-train a resnet18 or resnet50.'
        )
    config = layouts.backbone_config(shapes_of(load_backbone_state(path, content=content)))
    if config is None:
        raise UserError(f'{weights} holds a ResNet of a kind that is not known: take another one.')
    pixels: Any = IMAGENET
    if (trained := read_input_settings(path, content)) is not None:
        pixels = trained._asdict()
    return Backbone(config, pixels['mean'], pixels['std'], str(path.resolve()))
