"""The ``.pkl`` of detectron2 and MoCo: a pickled dict of NumPy arrays.

NumPy's own way to rebuild an array is not safe for files of strangers: ``ndarray`` and ``dtype``
take addresses, lengths and flags out of a pickle and believe them, and 88 bytes are enough to
write to memory of the attacker's choice. So the arrays of a pickle become :class:`PlainArray` here,
four plain values, and a real array is made of them when their sizes have been compared.
"""

import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from ttl_mm.checkpoint.plain_pickle import Builder, StandIn, checked_key, read_pickle
from ttl_mm.checkpoint.torch_file import latin1
from ttl_mm.files.regular import size_of

# kinds of numbers that both NumPy and torch have
_NUMBERS = {'f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'b1'}
_WORDS = {np.dtype(letters).name: letters for letters in _NUMBERS}  # float32 -> f4
_MAX_DIMS = 25


class PlainDtype(StandIn):
    """Stands for ``numpy.dtype``: the text that names it, and the order of its bytes."""

    def __init__(self, name: Any, *flags: Any) -> None:
        self.name, self.order = name, '<'

    def set_state(self, state: Any) -> None:
        """Take the order of bytes, and nothing else, from what NumPy wrote."""
        if not isinstance(state, tuple) or len(state) < 2:
            raise ValueError('it has a damaged dtype')
        self.order = state[1]

    def resolve(self) -> np.dtype:
        """The dtype, which is one of plain numbers."""
        name, order = self.name, self.order
        if isinstance(name, str) and name[:1] in ('<', '>', '|', '='):
            name, order = name[1:], name[0]
        name = _WORDS.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in _NUMBERS or order not in ('<', '>', '|', '='):
            raise ValueError(f'it has an array of {str(name)[:20]!r}, which is no array of numbers')
        return np.dtype(f'{"<" if order in "|=" else order}{name}')


class PlainArray(StandIn):
    """Stands for ``numpy.ndarray``: shape, dtype, order of the axes, bytes."""

    def __init__(self, shape: Any = (0,), dtype: Any = 'u1', data: Any = b'', fortran: Any = False):
        self.shape, self.dtype, self.data, self.fortran = shape, dtype, data, fortran

    def set_state(self, state: Any) -> None:
        """Take what NumPy wrote: (version,) shape, dtype, whether columns come first, bytes."""
        self.shape, self.dtype, self.fortran, self.data = state[-4:]

    def resolve(self) -> np.ndarray:
        """The array; ValueError where shape, dtype and bytes do not agree."""
        dtype = self.dtype if isinstance(self.dtype, PlainDtype) else PlainDtype(self.dtype)
        kind = dtype.resolve()
        data = latin1(self.data) if isinstance(self.data, str) else self.data
        shape = (self.shape,) if isinstance(self.shape, int) else self.shape
        plain = isinstance(shape, (tuple, list)) and isinstance(data, (bytes, memoryview))
        if not plain or len(shape) > _MAX_DIMS:
            raise ValueError('it has a damaged array')
        if any(type(n) is not int or not 0 <= n < 2**48 for n in shape):
            raise ValueError(f'it has an array of shape {str(shape)[:80]}')
        claimed = math.prod(shape) * kind.itemsize
        if claimed != len(data):
            raise ValueError(f'an array claims {claimed} bytes and has {len(data)}')
        flat = np.frombuffer(data, kind).astype(kind.newbyteorder('='))  # a copy
        if kind.kind == 'b':
            flat = np.frombuffer(data, np.uint8) != 0
        return flat.reshape(shape, order='F' if self.fortran is True else 'C')


def _reconstruct(kind: Any, shape: Any, letter: Any) -> PlainArray:
    return PlainArray()  # its state follows


def _ndarray(shape: Any, dtype: Any, data: Any, *more: Any) -> PlainArray:
    if more:
        raise ValueError('an array claims a part of its bytes, or the same bytes several times')
    return PlainArray(shape, dtype, data)


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any = 'C') -> PlainArray:
    return PlainArray(shape, dtype, data, order == 'F')


def _scalar(dtype: Any, data: Any) -> PlainArray:
    return PlainArray((), dtype, data)


def _buffer(data: Any = b'') -> Any:
    """``bytearray`` of bytes, and not of a length that a file could choose."""
    if isinstance(data, str):
        return latin1(data)
    if not isinstance(data, (bytes, memoryview)):
        raise ValueError('it has bytes that are none')
    return data


def _mapping(pairs: Any = ()) -> dict:
    return {checked_key(key): value for key, value in pairs}


_CORES = ('core', '_core')  # private to NumPy, and moved between versions
_TABLE: Mapping[str, Any] = {
    'numpy.ndarray': Builder(_ndarray),
    'numpy.dtype': Builder(PlainDtype),
    **{f'numpy.{core}.multiarray._reconstruct': Builder(_reconstruct) for core in _CORES},
    **{f'numpy.{core}.multiarray.scalar': Builder(_scalar) for core in _CORES},
    **{f'numpy.{core}.numeric._frombuffer': Builder(_frombuffer) for core in _CORES},
    **{f'{module}.{kind}': Builder(_buffer)
       for module in ('builtins', '__builtin__') for kind in ('bytes', 'bytearray')},
    'collections.OrderedDict': Builder(_mapping),
    '_codecs.encode': Builder(latin1),
}  # fmt: skip


def read_array_pickle(file: BinaryIO) -> dict[str, dict[str, Tensor]]:
    """The tensors of a pickled dict of arrays, or of the dict ``model`` in it.

    Raises:
        RefusedNameError: To read it would mean to run or build something.
        Exception: It is damaged; most often a ValueError.
    """
    content, _ = read_pickle(file.read(size_of(file)), _TABLE)
    inner = content.get('model', content) if isinstance(content, dict) else None
    if not isinstance(inner, dict):
        raise ValueError('it holds no dict of arrays')
    claimed, size, tensors = 0, size_of(file), {}
    for name, value in inner.items():
        if isinstance(value, PlainArray):
            claimed += len(value.data)
            if claimed > size:  # one array under many names
                raise ValueError(f'its arrays claim {claimed} bytes, more than the file has')
            tensors[str(name)] = torch.from_numpy(value.resolve())
        elif isinstance(value, (bool, int, float)) and abs(value) < 2**63:
            tensors[str(name)] = torch.tensor(value)
        else:
            raise ValueError(f'{str(name)[:100]} is no array of numbers')
    return {'model': tensors}
