"""Arrays in NumPy's own format, read in place: plain numbers, no more than the file has."""

import math
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
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f'it is of version {version} of the format')
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.kind not in 'fiu' or any(n < 0 for n in shape):
        raise ValueError(f'it has values of kind {dtype} in shape {shape}')
    start, size = file.tell(), size_of(file)
    if math.prod(shape) * dtype.itemsize != size - start:
        raise ValueError(f'it claims {shape} values of kind {dtype} in {size - start} bytes')
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype, 'r', start, shape, 'F' if fortran else 'C')
