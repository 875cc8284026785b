"""What the pixels of a file are, read from its header: how many channels, and which numbers."""

import struct
from typing import NamedTuple

import numpy as np

from ttl_mm.files.dicom import dicom_header, is_dicom
from ttl_mm.files.plain_npy import npy_header
from ttl_mm.files.tiff import is_tiff, tiff_pages

_PNG = b'\x89PNG\r\n\x1a\n'
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}  # by kind of color, without alpha
_PNG_ALPHA = (4, 6)


class PixelKind(NamedTuple):
    """Channels without alpha, the type of their numbers, and whether alpha is left out.

    ``plain`` is what has always been read as three channels of 8 bit, whatever the file holds.
    """

    channels: int
    dtype: np.dtype
    alpha: bool = False
    plain: bool = True


PLAIN = PixelKind(3, np.dtype(np.uint8))


def is_npy(data: bytes) -> bool:
    """Whether this is the content of a file of NumPy."""
    return data.startswith(b'\x93NUMPY')


def pixel_kind(data: bytes) -> PixelKind:
    """The kind of an image by the content of its file.

    Raises:
        ValueError: Its header is damaged.
    """
    if is_npy(data):
        shape, dtype, _, _ = npy_header(data)
        return PixelKind(image_shape(shape)[2], dtype.newbyteorder('='), plain=False)
    if is_dicom(data):  # its first bytes may be those of a TIFF file, too
        header = dicom_header(data)
        return PixelKind(header.channels, header.dtype, plain=False)
    if is_tiff(data):
        pages = tiff_pages(data)
        alpha = any(kind in (1, 2) for kind in pages[0].extra)
        if len(pages) == 1 and pages[0].is_plain:
            return PLAIN._replace(alpha=alpha)
        channels = sum(page.samples for page in pages)
        dtype = pages[0].stored if pages[0].dtype else np.dtype(np.uint8)
        return PixelKind(channels, dtype, plain=False)
    if data.startswith(_PNG) and len(data) > 26:
        bits, color = struct.unpack_from('BB', data, 24)
        alpha = color in _PNG_ALPHA
        if bits == 16:
            return PixelKind(_PNG_CHANNELS.get(color, 3), np.dtype(np.uint16), alpha, plain=False)
        return PLAIN._replace(alpha=alpha)
    return PLAIN


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of an array: (H, W), (H, W, C), or (C, H, W) if C is smallest.

    >>> image_shape((8, 64, 48))
    (64, 48, 8)
    """
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3 or not all(shape):
        raise ValueError(f'an array of shape {shape} is no image: (H, W) or (H, W, C) is expected')
    if channels_first(shape):
        return shape[1], shape[2], shape[0]
    return shape[0], shape[1], shape[2]


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether the first axis of three holds the channels: it is shorter than the last."""
    return len(shape) == 3 and shape[0] < shape[2] and shape[0] < shape[1]
