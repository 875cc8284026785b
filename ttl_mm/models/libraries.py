"""Networks of timm, torchvision and mmpretrain by their names there, without a classifier.

A module that was given in Python has a name too, which only the process knows that it was given to.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

from ttl_mm.checkpoint.input_settings import MOST_PIXELS
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS

GIVEN = 'module'  # in place of a library, for modules that were given in Python
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Built(NamedTuple):
    """A network with random weights, and what its library says about its images."""

    network: nn.Module  # images (N, 3, H, W) to maps, tokens or vectors
    size: int  # edge of the images
    mean: tuple[float, ...]  # of red, green and blue, from 0 to 255
    std: tuple[float, ...]


class Library(NamedTuple):
    """How to list and build the networks of a package."""

    names: Callable[[], list[str]]
    build: Callable[[str, int | None], Built]  # name, and size if not the usual one
    install: str


def _in_255(values: Any) -> tuple[float, ...]:
    return tuple(round(255 * float(value), 4) for value in values)


# timm


def _timm_names() -> list[str]:
    return import_module('timm').list_models()


#: options that let a transformer take images of other sizes than its own, where it has them
_TIMM_ANY_SIZE: tuple[dict[str, Any], ...] = (
    {'strict_img_size': False},
    {'dynamic_img_size': True},
)


def _build_timm(name: str, size: int | None) -> Built:
    timm = import_module('timm')
    own = timm.get_pretrained_cfg(name)
    edge = own.input_size[-1] if own is not None else 224
    if size is not None and size != edge:
        network = timm.create_model(name, num_classes=0, img_size=size)
    else:
        network = timm.create_model(name, num_classes=0, **timm_options(name))
    mean, std = (own.mean, own.std) if own is not None else (IMAGENET_MEAN, IMAGENET_STD)
    return Built(network, size or edge, _in_255(mean), _in_255(std))


@cache
def timm_options(name: str) -> dict[str, Any]:
    """Options of ``timm.create_model`` with which a network takes images of other sizes."""
    timm = import_module('timm')
    own = timm.get_pretrained_cfg(name)
    for options in _TIMM_ANY_SIZE if own is not None and own.fixed_input_size else ():
        try:
            timm.create_model(name, num_classes=0, **options)
            return options
        except TypeError:  # a network without this option
            continue
    return {}


# torchvision


def _torchvision_names() -> list[str]:
    models = import_module('torchvision.models')
    return models.list_models(module=models)


def _build_torchvision(name: str, size: int | None) -> Built:
    models = import_module('torchvision.models')
    options: dict[str, Any] = {'weights': None}
    builder = inspect.unwrap(models.get_model_builder(name))
    if 'init_weights' in inspect.signature(builder).parameters:
        options['init_weights'] = True  # Inception warns where nothing is said
    if size is not None:
        options['image_size'] = size
    network = models.get_model(name, **options)
    mean, std, edge = IMAGENET_MEAN, IMAGENET_STD, 224
    try:
        usual = models.get_model_weights(name)
    except ValueError:  # no weights were published
        usual = ()
    for weights in list(usual)[:1]:
        transforms = weights.transforms()
        mean, std, edge = transforms.mean, transforms.std, transforms.crop_size[0]
    edge = getattr(network, 'image_size', edge)
    remove_classifier(network, name)
    return Built(network, edge, _in_255(mean), _in_255(std))


def remove_classifier(network: nn.Module, name: str, classes: int = 1000) -> str:
    """Replace the last layer with an output per class by the identity; return its name."""
    layers = [
        path
        for path, layer in network.named_modules()
        if getattr(layer, 'out_features', getattr(layer, 'out_channels', None)) == classes
        and 'aux' not in path.lower()
    ]
    if not layers:
        raise UserError(f'{name} has no layer with {classes} classes: it computes no features.')
    parent, _, child = layers[-1].rpartition('.')
    setattr(network.get_submodule(parent), child, nn.Identity())
    return layers[-1]


# mmpretrain


@cache
def _mmpretrain_configs() -> dict[str, Path]:
    """The configs of its zoo by name."""
    root = Path(import_module('mmpretrain').__file__ or '').parent  # installed, or a checkout
    folders = [root / '.mim' / 'configs', root.parent / 'configs']
    found = next((folder for folder in folders if folder.is_dir()), folders[0])
    return {path.stem: path for path in sorted(found.glob('[!_]*/*.py'))}


def _build_mmpretrain(name: str, size: int | None) -> Built:
    config = Config.fromfile(_mmpretrain_configs()[name])
    backbone = (config.get('model') or {}).get('backbone')
    if not backbone:
        raise UserError(f'mmpretrain/{name} has no model with a backbone: take another config.')
    backbone = backbone.to_dict()
    if (backbone.get('init_cfg') or {'type': ''})['type'] == 'Pretrained':  # a download
        del backbone['init_cfg']
    backbone.pop('frozen_stages', None)
    if size is not None:
        backbone['img_size'] = size
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        network = MODELS.build(backbone)
    pixels = config.model.get('data_preprocessor') or config.get('data_preprocessor') or {}
    mean = tuple(map(float, pixels.get('mean') or _in_255(IMAGENET_MEAN)))
    std = tuple(map(float, pixels.get('std') or _in_255(IMAGENET_STD)))
    edge = backbone.get('img_size') or _crop(config) or 224
    return Built(network, edge if isinstance(edge, int) else edge[0], mean, std)


def _crop(config: Config) -> int | None:
    """The size that the config tests on."""
    loader = config.get('test_dataloader') or {}
    steps = (loader.get('dataset') or {}).get('pipeline') or []
    return next((step.crop_size for step in steps if isinstance(step.get('crop_size'), int)), None)


# modules that were given in Python

_GIVEN: dict[str, tuple[nn.Module, int | None]] = {}


def give_module(module: nn.Module, size: int | None = None) -> str:
    """Let :func:`build_network` know a module; the name that it has from now on.

    The name follows from the classes, the plain attributes and the shapes of the module and its
    parts: the same module has the same name in another process, and another structure another.

    Args:
        module: Maps images to features.
        size: Edge of images that it takes, see :func:`built_of`.
    """
    shapes = [(name, tuple(tensor.shape)) for name, tensor in module.state_dict().items()]
    parts = [
        (name, type(part).__name__, _attributes(part)) for name, part in module.named_modules()
    ]
    digest = hashlib.sha256(repr((parts, shapes, size)).encode()).hexdigest()
    name = f'{GIVEN}/{type(module).__name__}-{digest[:8]}'
    _GIVEN[name] = module, size
    return name


def _attributes(part: nn.Module) -> list[tuple[str, Any]]:
    """Numbers, switches and texts of a module, but for the mode that it is in."""

    def is_plain(value: Any) -> bool:
        parts = value if isinstance(value, tuple) else [value]
        return all(part is None or isinstance(part, (bool, int, float, str)) for part in parts)

    own = {name: value for name, value in vars(part).items() if name[0] != '_' and is_plain(value)}
    own.pop('training', None)
    return sorted(own.items())


def given_module(name: str | None) -> tuple[nn.Module, int | None] | None:
    """What :func:`give_module` got under this name; None if that is no such name."""
    return _GIVEN.get(name or '')


def built_of(module: nn.Module, size: int | None = None) -> Built:
    """A copy of a module with its weights, and what is known about its images.

    Args:
        module: One of timm says itself what its images are like; others get those of ImageNet.
        size: Edge of images that it takes; 224, or what a network of timm says, by default.
    """
    own = getattr(module, 'pretrained_cfg', None)
    own = own if isinstance(own, Mapping) else {}
    edge = size or (own.get('input_size') or (224,))[-1]
    mean, std = own.get('mean') or IMAGENET_MEAN, own.get('std') or IMAGENET_STD
    return Built(deepcopy(module).cpu(), edge, _in_255(mean), _in_255(std))


def _build_given(name: str, size: int | None) -> Built:
    module, edge = _GIVEN[f'{GIVEN}/{name}']
    return built_of(module, size or edge)


LIBRARIES = {
    'timm': Library(_timm_names, _build_timm, "pip install 'ttl-mm[timm]'"),
    'torchvision': Library(_torchvision_names, _build_torchvision, 'pip install torchvision'),
    'mmpretrain': Library(lambda: list(_mmpretrain_configs()), _build_mmpretrain, 'make light'),
    GIVEN: Library(
        lambda: [name.partition('/')[2] for name in _GIVEN], _build_given, 'give it in Python'
    ),
}


def library_names(library: str) -> list[str]:
    """The names of a library's networks, as ``timm/resnet18``.

    Raises:
        UserError: It is not installed.
    """
    try:
        return [f'{library}/{name}' for name in LIBRARIES[library].names()]
    except ImportError as error:
        raise UserError(
            f'{library} is not installed ({error}), and its networks need it: '
            f'{LIBRARIES[library].install}.'
        ) from error


def build_network(name: str, size: int | None = None) -> Built:
    """The network that a name such as ``timm/resnet18`` stands for, with random weights.

    Args:
        name: One of :func:`library_names`; nothing is downloaded, and no other name is tried.
        size: Edge of the images to build it for, if not the usual one.

    Raises:
        UserError: There is no such network, or not for this size.
    """
    library, _, rest = name.partition('/')
    if library not in LIBRARIES or name not in library_names(library):
        if library == GIVEN:
            raise UserError(
                f'{name} is a module that was given in Python, and only code can give it again: '
                'name it with backbone=MODULE of ttl_mm.pretrain or evaluate_checkpoint.'
            )
        raise UserError(f'{name} is no network of timm, torchvision or mmpretrain.')
    if size is not None and not 1 <= size <= MOST_PIXELS:
        raise UserError(f'{name} for images of {size} pixels: use 1 to {MOST_PIXELS}.')
    try:
        return LIBRARIES[library].build(rest, size)
    except UserError:
        raise
    except ImportError as error:
        raise UserError(f'{name} needs a package that is not installed: {error}.') from error
    except Exception as error:  # each network refuses what it cannot be in its own way
        reason = str(error).strip().splitlines()
        about = f'for images of {size} pixels ' if size is not None else ''
        detail = reason[0][:200] if reason else type(error).__name__
        raise UserError(f'{name} cannot be built {about}here: {detail}') from error
