"""Arrays in NumPy's own format, read in place: plain numbers, no more than the file has."""

import io
import math
import tokenize
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from ttl_mm.files.regular import size_of

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def map_npy(file: BinaryIO) -> np.ndarray:
    """The array of an open ``.npy`` file as a memory map; it outlives the file.

    Raises:
        ValueError: It is damaged, has objects in place of numbers, or claims more than is there.
    """
    shape, dtype, fortran, start = _read_header(file, size_of(file))
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype, 'r', start, shape, 'F' if fortran else 'C')


def parse_npy(data: bytes) -> np.ndarray:
    """The array in the content of a ``.npy`` file; raises as :func:`map_npy`."""
    shape, dtype, fortran, start = npy_header(data)
    values = np.frombuffer(data, dtype, math.prod(shape), start)
    return values.reshape(shape, order='F' if fortran else 'C')


def npy_header(data: bytes) -> tuple[tuple[int, ...], np.dtype, bool, int]:
    """Shape, type, whether columns come first, and where the numbers begin."""
    return _read_header(io.BytesIO(data), len(data))


def _read_header(file: BinaryIO, size: int) -> tuple[tuple[int, ...], np.dtype, bool, int]:
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f'it is of version {version} of the format')
    try:
        shape, fortran, dtype = _HEADERS[version](file)
    except (SyntaxError, tokenize.TokenError) as error:  # NumPy evaluates parts of its text
        raise ValueError(f'its header is no description of an array: {error.args[0]}') from None
    if dtype.kind not in 'fiu' or any(n < 0 for n in shape):
        raise ValueError(f'it has values of kind {dtype} in shape {shape}')
    start = file.tell()
    if math.prod(shape) * dtype.itemsize != size - start:
        raise ValueError(f'it claims {shape} values of kind {dtype} in {size - start} bytes')
    return shape, dtype, fortran, start
