"""Image files to arrays, by the same rules for every dataset and pipeline.

A decoded image is upright (EXIF orientation applied), 8-bit, three channels, BGR. Grayscale is
repeated, palettes are resolved, CMYK is converted, alpha is dropped, and 16-bit values keep their
high byte. A file that cannot be decoded completely raises :class:`BadImageError`; so does one with
more pixels than allowed, before memory is spent on it.
"""

import io
import os
import warnings
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ttl_mm.datasets.jpeg import JpegHeader, read_jpeg_header
from ttl_mm.errors import UserError

MAX_PIXELS = 2**26  # 8192 x 8192
# What Pillow may read. Formats such as EPS would start other programs.
FORMATS = ('PNG', 'WEBP', 'GIF', 'BMP', 'TIFF', 'PPM', 'JPEG2000', 'AVIF')


class BadImageError(UserError):
    """A file that is not a usable image: ``path`` and ``reason``.

    When a DataLoader rebuilds the error of a worker, ``path`` is its text and ``reason`` None.
    """

    def __init__(self, path: str, reason: str | None = None):
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return self.path if self.reason is None else f'{self.path}: {self.reason}'


def decode_image(source: bytes | str | os.PathLike, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Decode a file, or its content, to an upright uint8 (H, W, 3) BGR array.

    Args:
        source: A path, or the bytes of a file.
        max_pixels: Larger images are refused by their header, before they are decompressed.

    Raises:
        BadImageError: Not readable, not an image, truncated, too large, or not 8 or 16 bit.

    Example:
        >>> decode_image('photo.jpg').shape
        (427, 640, 3)
    """
    return open_image(source, max_pixels).decode()


def open_image(
    source: bytes | str | os.PathLike, max_pixels: int = MAX_PIXELS
) -> 'JpegFile | DecodedFile':
    """Read a file; its upright ``height`` and ``width`` are known before a JPEG is decoded."""
    if isinstance(source, bytes):
        path, data = '<bytes>', source
    else:
        path = os.fspath(source)
        data = _read(path, max_pixels)
    if not data:
        raise BadImageError(path, 'empty file')
    if data.startswith(b'\xff\xd8'):
        return _open_jpeg(path, data, max_pixels)
    return DecodedFile(_decode_with_pillow(path, data, max_pixels))


@dataclass
class JpegFile:
    """A complete JPEG, which :meth:`decode` decodes with OpenCV."""

    path: str
    data: bytes
    header: JpegHeader
    divisors = (1, 2, 4, 8)  # pixel i of a reduced image covers pixels [n * i, n * i + n)

    @property
    def height(self) -> int:
        return self.header.width if self.header.orientation > 4 else self.header.height

    @property
    def width(self) -> int:
        return self.header.height if self.header.orientation > 4 else self.header.width

    def decode(self, divisor: int = 1) -> np.ndarray:
        flags = _IMREAD[divisor] | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(self.data, np.uint8), flags)
        stored = (-(-self.header.height // divisor), -(-self.header.width // divisor))
        if image is None or image.shape[:2] != stored:
            raise BadImageError(self.path, 'broken or unsupported JPEG')
        return _upright(image, self.header.orientation)


@dataclass
class DecodedFile:
    """An image of any other format, decoded at once: only JPEG can be decoded at reduced size."""

    image: np.ndarray
    divisors = (1,)

    @property
    def height(self) -> int:
        return self.image.shape[0]

    @property
    def width(self) -> int:
        return self.image.shape[1]

    def decode(self, divisor: int = 1) -> np.ndarray:
        return self.image


_IMREAD = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}


def _read(path: str, max_pixels: int) -> bytes:
    try:
        with open(path, 'rb') as file:
            size = os.fstat(file.fileno()).st_size
            if size > 8 * max_pixels + 2**20:  # 16-bit RGBA and some metadata
                raise BadImageError(path, f'{size} bytes are too many for {max_pixels=}')
            return file.read()
    except OSError as error:
        raise BadImageError(path, f'cannot be read: {error.strerror}') from error


def _open_jpeg(path: str, data: bytes, max_pixels: int) -> JpegFile:
    try:
        header = read_jpeg_header(data)
    except ValueError as error:
        raise BadImageError(path, str(error)) from error
    _check_size(path, header.height, header.width, max_pixels)
    return JpegFile(path, data, header)


def _decode_with_pillow(path: str, data: bytes, max_pixels: int) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)  # reads the header only
        _check_size(path, image.height, image.width, max_pixels)
        array = _to_rgb8(ImageOps.exif_transpose(image))
    except BadImageError:
        raise
    except UnidentifiedImageError as error:
        raise BadImageError(path, f'not a known image, it starts with {data[:16]!r}') from error
    except Exception as error:  # struct.error, EOFError and others, depending on the format
        raise BadImageError(path, f'cannot be decoded: {error}') from error
    return cv2.cvtColor(array, cv2.COLOR_RGB2BGR)


def _check_size(path: str, height: int, width: int, max_pixels: int) -> None:
    if height * width > max_pixels:
        raise BadImageError(
            path,
            f'{width} x {height} pixels are more than max_pixels={max_pixels}; '
            'shrink the image or raise the limit',
        )


def _upright(image: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF orientation (1 to 8); above 4 rows and columns are swapped."""
    if orientation > 4:
        image = cv2.transpose(image)
    # cv2.flip: 1 mirrors left to right, 0 top to bottom, -1 both
    flip_code = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return image if flip_code is None else cv2.flip(image, flip_code)


def _to_rgb8(image: Image.Image) -> np.ndarray:
    if image.mode == 'I' or image.mode.startswith('I;16'):
        values = np.asarray(image)
        if values.size and (values.min() < 0 or values.max() > 0xFFFF):
            raise ValueError(f'values {values.min()}..{values.max()} do not fit into 16 bit')
        return cv2.cvtColor((values >> 8).astype(np.uint8), cv2.COLOR_GRAY2RGB)
    if image.mode == 'F':
        raise ValueError('floating-point pixels have no defined white: convert to 8 or 16 bit')
    return np.asarray(image.convert('RGB'))
