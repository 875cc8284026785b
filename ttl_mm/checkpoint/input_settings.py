"""The images that a network was trained on, as its checkpoint remembers them: size and pixels."""

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
    """Edge of the square images in pixels; mean and standard deviation of red, green, blue."""

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


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
        return _checked(found['size'], found['mean'], found['std'])
    with suppress(KeyError, TypeError, ValueError):
        config = parse_json(content['ttl_mm']['config'], allow_nan=True)
        pixels = config['model']['data_preprocessor']
        size = max(_sizes(config['train_dataloader']['dataset']))
        return _checked(size, pixels['mean'], pixels['std'])
    return None


def _checked(size: Any, mean: Any, std: Any) -> InputSettings:
    """The settings, if they are numbers that images can have; ValueError if not."""
    values = [*mean, *std]
    numbers = all(type(n) in (int, float) and -MOST_MEAN <= n <= MOST_MEAN for n in values)
    if type(size) is not int or not 1 <= size <= MOST_PIXELS or not numbers:
        raise ValueError('no settings of images')
    if not len(mean) == len(std) == 3 or min(std) <= 0:
        raise ValueError('no mean and standard deviation of three colors')
    return InputSettings(size, tuple(mean), tuple(std))


def read_input_settings(path: Path) -> InputSettings | None:
    """The same, of a file."""
    if path.suffix == '.safetensors':
        with open_regular(path, WEIGHTS) as file, suppress(ValueError, KeyError):
            return input_settings({'meta': parse_json(read_header(file)[1]['ttl_mm'])})
        return None
    return input_settings(read_checkpoint(path))


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
