"""Image files to arrays, by the same rules for every dataset and pipeline.

A decoded image is upright (EXIF orientation applied), 8-bit, three channels, BGR. Grayscale is
repeated, palettes are resolved, CMYK is converted, alpha is dropped, and 16-bit values keep their
high byte. A file that cannot be decoded completely raises :class:`BadImageError`; so does one with
more pixels than allowed, before memory is spent on it.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np
from mmcv.transforms import BaseTransform
from PIL import ExifTags, Image, ImageOps

from ttl_mm.errors import UserError, plain_sentence
from ttl_mm.files.archives.member import read_image_file
from ttl_mm.files.dicom import is_dicom
from ttl_mm.files.image_header import MAX_PIXELS, is_jpeg, open_with_pillow, read_jpeg_header
from ttl_mm.registry import TRANSFORMS


class BadImageError(UserError):
    """A file that is not a usable image: ``path`` and ``reason``.

    When a DataLoader rebuilds the error of a worker, ``path`` is its text and ``reason`` None.
    """

    def __init__(self, path: str, reason: str | None = None):
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return plain_sentence(self.path if self.reason is None else f'{self.path}: {self.reason}')


def decode_image(source: bytes | str | os.PathLike, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Decode a file, or its content, to an upright uint8 (H, W, 3) BGR array.

    Args:
        source: A path, or the bytes of a file.
        max_pixels: Larger images are refused by their header, before they are decompressed.

    Raises:
        BadImageError: Not readable, not an image, truncated, too large, or not 8 or 16 bit.

    Example:
        >>> png = cv2.imencode('.png', np.zeros((4, 6, 3), np.uint8))[1].tobytes()
        >>> decode_image(png).shape
        (4, 6, 3)
    """
    return open_image(source, max_pixels).decode(1)


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Decode ``img_path`` to ``img``; an ``img`` from a dataset in memory stays as it is.

    Args:
        max_pixels: Larger images are refused.
    """

    def __init__(self, max_pixels: int = MAX_PIXELS) -> None:
        self.max_pixels = max_pixels

    def transform(self, results: dict) -> dict:
        """Add ``img``, ``img_shape`` and ``ori_shape``."""
        if 'img' not in results:
            results['img'] = decode_image(results['img_path'], self.max_pixels)
        results['img_shape'] = results['ori_shape'] = results['img'].shape[:2]
        return results


class ImageFile(NamedTuple):
    """A file that was read: its upright size, and how to decode it at 1 / n of this size.

    Only JPEG can be decoded at reduced size; pixel i then covers pixels n * i to n * i + n - 1.
    """

    height: int
    width: int
    decode: Callable[[int], np.ndarray]  # takes n, one of the divisors
    divisors: tuple[int, ...] = (1,)

    @classmethod
    def of(cls, image: np.ndarray) -> 'ImageFile':
        """An image that is decoded already."""
        return cls(image.shape[0], image.shape[1], lambda divisor: image)


def open_image(source: bytes | str | os.PathLike, max_pixels: int = MAX_PIXELS) -> ImageFile:
    """Read a file; the size of a JPEG is known before it is decoded."""
    if isinstance(source, bytes):
        path, data = '<bytes>', source
    else:
        path = os.fspath(source)
        data = read_file(path, max_pixels)
    if not data:
        raise BadImageError(path, 'empty file')
    if is_jpeg(data):
        return _open_jpeg(path, data, max_pixels)
    if is_dicom(data):
        raise BadImageError(path, 'a DICOM file, which is beyond 8-bit RGB: see docs/data.md')
    return ImageFile.of(_decode_with_pillow(path, data, max_pixels))


def read_file(path: str, max_pixels: int) -> bytes:
    """The content of an image file, also of one in an archive; BadImageError if it has none."""
    try:
        return read_image_file(path, 8 * max_pixels + 2**20)  # 16-bit RGBA and some metadata
    except (OSError, ValueError) as error:  # the last of a path with a NUL, or of a damaged zip
        reason = getattr(error, 'strerror', None) or error
        raise BadImageError(path, f'cannot be read: {reason}') from error


def _open_jpeg(path: str, data: bytes, max_pixels: int) -> ImageFile:
    try:
        header = read_jpeg_header(data, max_pixels)
    except ValueError as error:
        raise BadImageError(path, str(error)) from error
    # Inside a scan FF is always followed by 00, so FF D9 can only be the end. Without it the file
    # is truncated, and OpenCV would silently fill the rest with gray.
    if data.rfind(b'\xff\xd9', header.scan) < 0:
        raise BadImageError(path, f'truncated JPEG: no end marker in {len(data)} bytes')
    orientation = exif_orientation(header.exif) if header.exif else 1
    size = header.width, header.height
    decode = partial(_decode_jpeg, path, data, size, orientation)
    width, height = reversed(size) if orientation > 4 else size
    return ImageFile(height, width, decode, tuple(_IMREAD))


def exif_orientation(block: bytes) -> int:
    """The orientation, 1 to 8, in an EXIF block; 1 (upright) if it is missing or broken."""
    exif = Image.Exif()
    try:
        exif.load(block)
        orientation: Any = exif.get(ExifTags.Base.Orientation)
    except Exception:  # struct.error, SyntaxError and others
        return 1
    return orientation if orientation in range(1, 9) else 1


_IMREAD = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}


def _decode_jpeg(
    path: str, data: bytes, size: tuple[int, int], orientation: int, divisor: int
) -> np.ndarray:
    flags = _IMREAD[divisor] | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    width, height = (-(-side // divisor) for side in size)
    if image is None or image.shape[:2] != (height, width):
        raise BadImageError(path, 'broken or unsupported JPEG')
    return _upright(image, orientation)


def _decode_with_pillow(path: str, data: bytes, max_pixels: int) -> np.ndarray:
    try:
        image = open_with_pillow(data, max_pixels)
    except ValueError as error:
        raise BadImageError(path, str(error)) from error
    try:
        array = _to_rgb8(ImageOps.exif_transpose(image))
    except Exception as error:  # struct.error, EOFError and others, depending on the format
        raise BadImageError(path, f'cannot be decoded: {error}') from error
    return cv2.cvtColor(array, cv2.COLOR_RGB2BGR)


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
