"""The images that a network was trained on, as its checkpoint remembers them: size and pixels."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.checkpoint.safetensors_file import read_header
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import WEIGHTS, open_regular


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
    """What a checkpoint of a run, or a backbone exported from one, says; None if it says nothing.

    Args:
        content: Of the file, as :func:`~ttl_mm.checkpoint.read.read_checkpoint` returns it.
    """
    with suppress(KeyError, TypeError, ValueError):
        found = content['meta']['input']
        numbers = tuple(found['mean']), tuple(found['std'])
        return InputSettings(int(found['size']), *numbers, _bands(found))
    with suppress(KeyError, TypeError, ValueError):
        config = parse_json(content['ttl_mm']['config'], allow_nan=True)
        pixels = config['model']['data_preprocessor']
        size = max(_sizes(config['train_dataloader']['dataset']))
        bands = _bands(config['train_dataloader']['dataset'])
        return InputSettings(size, tuple(pixels['mean']), tuple(pixels['std']), bands)
    return None


def read_input_settings(path: Path) -> InputSettings | None:
    """The same, of a file."""
    if path.suffix == '.safetensors':
        with open_regular(path, WEIGHTS) as file, suppress(ValueError, KeyError):
            return input_settings({'meta': parse_json(read_header(file)[1]['ttl_mm'])})
        return None
    return input_settings(read_checkpoint(path))


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
            else:
                yield from _sizes(value)
    elif isinstance(config, (list, tuple)):
        for part in config:
            yield from _sizes(part)
