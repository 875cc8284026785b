"""Files in the safetensors format: a JSON header that says where each tensor lies, then the bytes.

Weights and feature files share this reader. Every claim of the header is compared with the bytes
that the file really has.
"""

import math
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import size_of

MAX_HEADER = 10_000_000  # bytes; the header of a file with 1,000 tensors has 0.1 MB
_MAX_DIMS = 25
_WORDS = {
    'F64': 'float64', 'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16', 'I64': 'int64',
    'I32': 'int32', 'I16': 'int16', 'I8': 'int8', 'U8': 'uint8', 'BOOL': 'bool', 'U16': 'uint16',
    'U32': 'uint32', 'U64': 'uint64', 'F8_E4M3': 'float8_e4m3fn', 'F8_E5M2': 'float8_e5m2',
    'C64': 'complex64',
}  # fmt: skip
DTYPES = {word: getattr(torch, name) for word, name in _WORDS.items() if hasattr(torch, name)}


class Place(NamedTuple):
    """Where a tensor lies, in bytes from the start of the file, and what it is."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    first: int
    last: int


def read_header(file: BinaryIO) -> tuple[dict[str, Place], dict[str, str]]:
    """The places of all tensors by name, and the free texts of the header.

    Raises:
        ValueError: The header is damaged, or does not fit the bytes behind it.
    """
    size = size_of(file)
    file.seek(0)
    length = int.from_bytes(file.read(8), 'little')
    if size < 8 or length > min(MAX_HEADER, size - 8):
        raise ValueError(
            f'its header claims {length} bytes, the file has {size} and {MAX_HEADER} are allowed'
        )
    header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError('its header is no JSON object')
    texts = header.pop('__metadata__', {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError('its header has metadata that are no text')
    places = {name: _place(entry, 8 + length) for name, entry in header.items()}
    position = 8 + length
    for place in sorted(places.values(), key=lambda p: (p.first, p.last)):
        if place.first != position:
            raise ValueError('its header leaves gaps between tensors, or lets them overlap')
        position = place.last
    if position != size:
        raise ValueError(f'{position} bytes expected, {size} found')
    return places, texts


def _place(entry: Any, start: int) -> Place:
    if not isinstance(entry, dict) or entry.keys() != {'dtype', 'shape', 'data_offsets'}:
        raise ValueError('its header has an entry that describes no tensor')
    dtype, shape, offsets = entry['dtype'], entry['shape'], entry['data_offsets']
    lists = isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2
    if not lists or not isinstance(dtype, str) or dtype not in DTYPES or len(shape) > _MAX_DIMS:
        raise ValueError(f'its header describes a tensor of {str(dtype)[:20]!r}')
    if any(type(n) is not int or not 0 <= n < 2**48 for n in (*shape, *offsets)):
        raise ValueError(f'its header describes a tensor of shape {str(shape)[:80]}')
    first, last = offsets
    if math.prod(shape) * DTYPES[dtype].itemsize != last - first:
        raise ValueError(f'a tensor of shape {str(shape)[:80]} claims {last - first} bytes')
    return Place(DTYPES[dtype], tuple(shape), start + first, start + last)


def read_safetensors(file: BinaryIO) -> dict[str, Tensor]:
    """All tensors of a file by name."""
    places, _ = read_header(file)
    tensors = {}
    for name, (dtype, shape, first, last) in places.items():
        data = torch.empty(last - first, dtype=torch.uint8)
        file.seek(first)
        if last > first and file.readinto(data.numpy().data) != last - first:  # type: ignore[attr-defined]
            raise ValueError('it is cut short')
        tensors[name] = torch.empty(0, dtype=dtype).set_(
            data.untyped_storage(), 0, shape, _contiguous_strides(shape)
        )
    return tensors


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * max(n, 1))
    return tuple(reversed(strides)) if shape else ()
