"""JSON of strangers: bounded nesting and numbers, and one kind of exception."""

import json
import os
import re
from typing import Any

from ttl_mm.files.regular import TEXT, read_bytes

MAX_DEPTH = 64
MAX_DIGITS = 19  # what fits into 64 bits
_SCANNED = 2**24  # characters; above it only the interpreter's own limit on nesting holds
# a whole string, so that its brackets do not count, or one bracket
_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|([\]}])', re.DOTALL)


def parse_json(text: str | bytes, allow_nan: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        text: JSON; bytes are UTF-8, with or without a byte-order mark.
        allow_nan: Whether NaN and Infinity, which are not JSON, are taken as numbers.

    Raises:
        ValueError: It is no JSON, nested more than :data:`MAX_DEPTH` deep, or has an integer of
            more than :data:`MAX_DIGITS` digits.
    """
    if isinstance(text, bytes):
        text = text.decode('utf-8-sig')
    if text.count('[') + text.count('{') > MAX_DEPTH and len(text) <= _SCANNED:
        _check_depth(text)
    constants = None if allow_nan else _refuse_constant
    try:
        return json.loads(text, parse_int=_integer, parse_constant=constants)
    except RecursionError:
        raise ValueError('it is nested too deeply') from None


def read_json(path: str | os.PathLike, max_bytes: int = TEXT, allow_nan: bool = False) -> Any:
    """The value of a JSON file; OSError where it cannot be read, ValueError where it is no JSON."""
    return parse_json(read_bytes(path, max_bytes), allow_nan)


def _check_depth(text: str) -> None:
    depth = 0
    for found in _BRACKET.finditer(text):
        if found[1]:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f'it is nested more than {MAX_DEPTH} deep')
        elif found[2]:
            depth -= 1


def _integer(digits: str) -> int:
    if len(digits.lstrip('-')) > MAX_DIGITS:
        raise ValueError(f'it has a number of {len(digits)} digits, {MAX_DIGITS} are allowed')
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f'it has {name}, which is no number')
