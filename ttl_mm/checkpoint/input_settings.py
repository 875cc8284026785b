"""The images that a network was trained on, as its checkpoint remembers them: size and pixels."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.checkpoint.safetensors_file import read_header
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import WEIGHTS, open_regular

MOST_PIXELS = 4096  # edge of an image
MOST_MEAN = 1000  # of a color, whose values go from 0 to 255


class InputSettings(NamedTuple):
    """Edge of the square images in pixels; mean and standard deviation of red, green, blue.

    Of images beyond 8-bit RGB, those of every channel, and in ``bands`` the values that became 0
    and 255: ``low`` and ``high`` of every channel.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    bands: dict[str, tuple[float, ...]] | None = None


def input_settings(content: Mapping[str, Any]) -> InputSettings | None:
    """What a checkpoint of a run, or a backbone exported from one, says.

    Args:
        content: Of the file, as :func:`~ttl_mm.checkpoint.read.read_checkpoint` returns it.

    Returns:
        None if it says nothing, or what no run can have had: a stranger's size of a million pixels
        would fill the memory.
    """
    with suppress(KeyError, TypeError, ValueError):
        found = content['meta']['input']
        return _checked(found['size'], found['mean'], found['std'], _bands(found))
    with suppress(KeyError, TypeError, ValueError):
        config = parse_json(content['ttl_mm']['config'], allow_nan=True)
        pixels = config['model']['data_preprocessor']
        size = max(_sizes(config['train_dataloader']['dataset']))
        bands = _bands(config['train_dataloader']['dataset'])
        return _checked(size, pixels['mean'], pixels['std'], bands)
    return None


def _checked(
    size: Any, mean: Any, std: Any, bands: dict[str, tuple[float, ...]] | None
) -> InputSettings:
    """The settings, if they are numbers that images can have; ValueError if not."""
    values = [*mean, *std]
    numbers = all(type(n) in (int, float) and -MOST_MEAN <= n <= MOST_MEAN for n in values)
    if type(size) is not int or not 1 <= size <= MOST_PIXELS or not numbers:
        raise ValueError('no settings of images')
    channels = 3 if bands is None else len(bands['low'])
    if not len(mean) == len(std) == channels or min(std) <= 0:
        raise ValueError('no mean and standard deviation of every channel')
    if bands is not None and not _is_range(**bands):
        raise ValueError('no range of values of every channel')
    return InputSettings(size, tuple(mean), tuple(std), bands)


def _is_range(low: tuple[float, ...], high: tuple[float, ...]) -> bool:
    """Whether both are finite, and every low value is below its high one."""
    is_finite = all(map(math.isfinite, (*low, *high)))
    return is_finite and len(low) == len(high) and all(a < b for a, b in zip(low, high))


def read_input_settings(
    path: Path, content: Mapping[str, Any] | None = None
) -> InputSettings | None:
    """The same, of a file; ``content`` is what is in it, if it was read already."""
    if path.suffix == '.safetensors':
        with open_regular(path, WEIGHTS) as file, suppress(ValueError, KeyError):
            return input_settings({'meta': parse_json(read_header(file)[1]['ttl_mm'])})
        return None
    return input_settings(read_checkpoint(path) if content is None else content)


def _bands(config: Any) -> dict[str, tuple[float, ...]] | None:
    """The first range of values in a part of a config."""
    if isinstance(config, Mapping):
        if isinstance(found := config.get('bands'), Mapping):
            return {end: tuple(float(value) for value in found[end]) for end in ('low', 'high')}
        config = list(config.values())
    parts = config if isinstance(config, (list, tuple)) else ()
    return next((found for part in parts if (found := _bands(part))), None)


def _sizes(config: Any) -> Iterator[int]:
    """The sizes of all views and crops that a pipeline makes."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            if key in ('size', 'scale', 'crop_size'):
                sizes = value if isinstance(value, (list, tuple)) else [value]
                yield from (int(s) for s in sizes if isinstance(s, (int, float)) and s > 1)
            elif key == 'later_sizes':  # pairs (epoch, size)
                yield from _sizes([{'size': later[1]} for later in value])
            else:
                yield from _sizes(value)
    elif isinstance(config, (list, tuple)):
        for part in config:
            yield from _sizes(part)
