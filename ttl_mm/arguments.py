"""What command lines share: one line for every mistake, numbers with ranges, paths, cfg-options.

Argument types raise ``argparse.ArgumentTypeError``, which the parser turns into a line that names
the option and the value. They need neither torch nor mmengine: a mistake is known at once.
"""

import argparse
import ast
import math
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ttl_mm.errors import UserError, did_you_mean
from ttl_mm.files.byte_size import parse_bytes
from ttl_mm.files.stores.url import clean_url, is_url

CFG_OPTIONS_HELP = (
    'change the config, as in {example}; a value is a Python literal or plain text, +KEY=VALUE '
    'adds a new key'
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the way to the help."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with 2."""
        message = ' '.join(message.removeprefix('argument ').split()).rstrip('.')
        hint = '' if message.endswith('?') else '.'
        print(f'{self.prog}: {message}{hint} See `{self.prog} --help`.', file=sys.stderr)
        sys.exit(2)

    def parse_known_args(self, args=None, namespace=None):
        """Refuse what is not known here, where the nearest option can be named."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition('=')[0]
            near = did_you_mean(word, self._option_string_actions) if word[:1] == '-' else ''
            self.error(f'{" ".join(unknown)} is not understood here.{near}')
        return found, unknown


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type: whole numbers from ``least`` to ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f'{text!r} is not a whole number') from None
        return _in_range(value, least, most)

    return parse


def number(least: float, most: float | None = None, above: bool = False) -> Callable[[str], float]:
    """A type: finite numbers from ``least`` (or ``above`` it) to ``most``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f'{text!r} is not a number')
        if above and value == least:
            raise argparse.ArgumentTypeError(f'{text} is too small: more than {least:g} is needed')
        return _in_range(value, least, most)

    return parse


def _in_range(value, least, most):
    if value < least or (most is not None and value > most):
        allowed = f'at least {least:g}' if most is None else f'{least:g} to {most:g}'
        raise argparse.ArgumentTypeError(f'{value} is out of range: {allowed}')
    return value


def byte_size(value: str) -> int:
    """A type: a number of bytes such as 500MB or 2.5GB.

    Example:
        >>> byte_size('1.5GB')
        1500000000
    """
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(value: str) -> float:
    """A type: a time such as 90s, 5m or 1.5h.

    Example:
        >>> seconds('5m')
        300.0
    """
    found = re.fullmatch(r'(\d{1,6}(?:\.\d{1,3})?) ?([smh])', value.lower())
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f'{value!r} is no time: write it as 90s, 5m or 1h')
    return float(found[1]) * {'s': 1, 'm': 60, 'h': 3600}[found[2]]


def text(value: str) -> str:
    """A type: text that is not empty."""
    if not value.strip():
        raise argparse.ArgumentTypeError('it is empty: leave the option out, or give a value')
    return value


def device(value: str) -> str:
    """A type: the name of a device as torch spells it."""
    if not re.fullmatch(r'(cpu|mps|(cuda|xpu|npu|musa)(:\d{1,3})?)', value):
        raise argparse.ArgumentTypeError(f'{value!r} is no device: use cpu, cuda or cuda:1')
    return value


def input_file(value: str) -> str:
    """A type: a regular file that can be read."""
    mode = _mode(value)
    if stat.S_ISDIR(mode):
        raise argparse.ArgumentTypeError(f'{value} is a folder: name a file')
    if not stat.S_ISREG(mode):
        raise argparse.ArgumentTypeError(f'{value} is no regular file')
    return _readable(value)


def input_folder(value: str) -> str:
    """A type: a folder that can be read."""
    if not stat.S_ISDIR(_mode(value)):
        raise argparse.ArgumentTypeError(f'{value} is not a folder')
    return _readable(value, os.R_OK | os.X_OK)


def input_path(value: str) -> str:
    """A type: a regular file or a folder."""
    return input_folder(value) if stat.S_ISDIR(_mode(value)) else input_file(value)


def images(value: str) -> str:
    """A type: a regular file, a folder, or an address of archives in a store."""
    if not is_url(value):
        return input_path(value)
    try:
        return clean_url(value)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def weights(value: str) -> str:
    """A type: a file of weights, or the name of one (``ttl_mm://NAME``)."""
    return value if '://' in value else input_file(value)


def output_file(value: str) -> str:
    """A type: a file that can be made, or a regular one; whether it may be replaced is asked later.

    See :func:`ttl_mm.outputs.claim_file`.
    """
    path = Path(text(value))
    try:
        if path.is_dir():
            raise argparse.ArgumentTypeError(f'{value} is a folder: name a file')
        if (path.exists() or path.is_symlink()) and not path.is_file():
            raise argparse.ArgumentTypeError(f'{value} is no regular file: name another one')
        _check_writable(path.parent, value)
    except OSError as error:
        raise argparse.ArgumentTypeError(f'{value} cannot be used: {error.strerror}') from None
    return value


def output_folder(value: str) -> str:
    """A type: a folder that exists and can be written to, or can be made."""
    path = Path(text(value))
    try:
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise argparse.ArgumentTypeError(f'{value} is not a folder')
        _check_writable(path, value)
    except OSError as error:
        raise argparse.ArgumentTypeError(f'{value} cannot be used: {error.strerror}') from None
    return value


def _mode(value: str) -> int:
    try:
        return os.stat(text(value)).st_mode
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(f'{value} does not exist') from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        why = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f'{value!r} cannot be read: {why}') from None


def _readable(value: str, rights: int = os.R_OK) -> str:
    if not os.access(value, rights):
        raise argparse.ArgumentTypeError(f'{value} cannot be read: check its permissions')
    return value


def _check_writable(folder: Path, value: str) -> None:
    """The folder, or the nearest one above it that exists, must accept new files."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f'{value} cannot be made: {folder} is not a folder')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f'{value} cannot be written: {folder} is not yours')


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """What a command line has given, without what the parsers of commands put beside it."""
    own = ('command', 'job', 'run', 'work')
    return {name: value for name, value in vars(args).items() if name not in own}


class CfgOptions(argparse.Action):
    """``--cfg-options KEY=VALUE ...``: a dict, whose values keep every character they were given.

    A value is what Python reads it as (``0.1``, ``None``, ``[1, 2]``, ``'a text'``), or ``true``
    and ``false``; everything else is plain text, with its blanks, commas and quotes.
    """

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        """Add the pairs to those given before; of a key that comes twice, the last counts."""
        options = dict(getattr(namespace, self.dest, None) or {})
        for pair in values:
            key, equals, value = pair.partition('=')
            try:
                if not equals or not key.strip('+ '):
                    raise ValueError(f'{pair!r} is not of the form KEY=VALUE')
                options[key] = parse_value(value)
            except ValueError as error:
                parser.error(f'{option_string}: {error}')
        setattr(namespace, self.dest, options)


def parse_value(value: str) -> Any:
    """The value of a ``KEY=VALUE`` pair; see :class:`CfgOptions`.

    Example:
        >>> parse_value('1e-3'), parse_value('/d/my photos, 2024')
        (0.001, '/d/my photos, 2024')

    Raises:
        ValueError: It begins like a list or a dict and is none.
    """
    if value in ('true', 'false'):
        return value == 'true'
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if value.strip()[:1] in ('[', '(', '{'):
            raise ValueError(
                f'{value!r} begins like a list or a dict and is none: put its texts in quotes, as '
                """in "['a', 'b']", or the whole in two pairs of quotes to mean plain text"""
            ) from None
        return value


def add_cfg_options(parser: argparse.ArgumentParser, example: str) -> None:
    """Add ``--cfg-options``."""
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=CfgOptions,
        metavar='KEY=VALUE',
        help=CFG_OPTIONS_HELP.format(example=example),
    )
