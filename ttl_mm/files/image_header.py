"""What an image will cost, read from its header before anything is decoded.

The time and memory of decoding grow with the number of pixels, and for a progressive JPEG also with
the number of its scans: each may change every pixel once more. 3 kB can claim 2 GB, and 1 MB can
ask for 10,000 scans.
"""

import io
import re
import struct
import warnings
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

# endings of the files that are taken for images
EXTENSIONS = (
    '.jpg', '.jpeg', '.png', '.webp', '.gif', '.bmp', '.tif', '.tiff', '.jp2', '.avif', '.ppm',
    '.pgm', '.pbm', '.dcm', '.dicom',
)  # fmt: skip
ARRAYS = ('.npy',)  # taken for images where there are no others
MAX_PIXELS = 2**25  # 8192 x 4096
MAX_SIDE = 65_500  # the limit of JPEG itself
MAX_SCANS = 100  # of a JPEG; encoders write 10
MAX_SEGMENTS = 10_000  # of a JPEG
MAX_CHUNKS = 2**17  # of a PNG
# What Pillow may read. Formats such as EPS would start other programs.
FORMATS = ('PNG', 'WEBP', 'GIF', 'BMP', 'TIFF', 'PPM', 'JPEG2000', 'AVIF')

# segments that hold the size of the image; the last one is that of JPEG-LS
_SIZES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}
_ALONE = {0x01, *range(0xD0, 0xD9)}  # markers without a segment
_SCAN, _END, _APP1 = 0xDA, 0xD9, 0xE1
# inside of a scan FF is followed by 00 or by a restart marker
_MARKER = re.compile(rb'\xff+([^\x00\xff\xd0-\xd7])')
_EXIF = b'Exif\0\0'


class JpegHeader(NamedTuple):
    """Size of a JPEG, its EXIF block, and where its first scan starts."""

    height: int
    width: int
    exif: bytes
    scan: int


def check_image(data: bytes, max_pixels: int = MAX_PIXELS) -> None:
    """Refuse the content of a file that would take too much time or memory to decode.

    Raises:
        ValueError: It is too large or no image that is known here; the message says why.
    """
    if is_jpeg(data):
        read_jpeg_header(data, max_pixels)
    elif data.startswith(b'\x89PNG\r\n\x1a\n') and data[12:16] == b'IHDR' and len(data) >= 24:
        width, height = struct.unpack_from('>II', data, 16)
        check_size(height, width, max_pixels)
        _check_chunks(data)
    else:
        open_with_pillow(data, max_pixels)


def _check_chunks(data: bytes) -> None:
    """Refuse a PNG whose chunks claim more than the file has: OpenCV would make room for them."""
    position = 8
    for _ in range(MAX_CHUNKS):
        if position + 12 > len(data):
            return
        (length,) = struct.unpack_from('>I', data, position)
        position += 12 + length
        if position > len(data):
            raise ValueError(f'a chunk of {length} bytes in a PNG of {len(data)} bytes')
    raise ValueError(f'a PNG of more than {MAX_CHUNKS} chunks')


def check_size(height: int, width: int, max_pixels: int = MAX_PIXELS) -> None:
    """Refuse an image of too many pixels, all or in a row."""
    if height * width > max_pixels:
        found = f'{width} x {height} pixels are more than {max_pixels=}'
        raise ValueError(f'{found}; shrink the image or raise the limit')
    if max(height, width) > MAX_SIDE:
        raise ValueError(f'{width} x {height} pixels: a side may have {MAX_SIDE} at most')


def open_with_pillow(data: bytes, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """An image of which only the header was read; ValueError as :func:`check_image`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # Pillow's own limit, and damaged metadata
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise ValueError(f'not a known image, it starts with {data[:16]!r}') from None
    except Exception as error:  # struct.error, EOFError and others, depending on the format
        raise ValueError(f'cannot be decoded: {error}') from error
    check_size(image.height, image.width, max_pixels)
    return image


def is_jpeg(data: bytes) -> bool:
    """Whether this is the content of a JPEG file."""
    return data.startswith(b'\xff\xd8')


def read_jpeg_header(data: bytes, max_pixels: int = MAX_PIXELS) -> JpegHeader:
    """The header of a JPEG, whose pixels and scans are not too many.

    Raises:
        ValueError: It is cut short, broken or too large.
    """
    header = _parse_header(data)
    check_size(header.height, header.width, max_pixels)
    # two bytes of metadata can look like the start of a scan, so this is only a quick first look
    if data.count(b'\xff\xda', header.scan) > MAX_SCANS:
        _check_scans(data, header.scan)
    return header


def _parse_header(data: bytes) -> JpegHeader:
    """Go from segment to segment up to the first scan."""
    size, exif, position = None, b'', 2
    for _ in range(MAX_SEGMENTS):
        found = _MARKER.search(data, position)
        if found is None:
            break
        kind, position = found[1][0], found.end()
        if kind in _ALONE:
            continue
        if kind == _END or position + 2 > len(data):
            break
        length = int.from_bytes(data[position : position + 2], 'big')
        if kind == _SCAN and size is not None:
            return JpegHeader(*size, exif, found.start())
        if kind == _SCAN or length < 2:
            break
        segment = data[position + 2 : position + length]
        if kind in _SIZES:
            if size is not None or len(segment) < 5:
                break
            size = int.from_bytes(segment[1:3], 'big'), int.from_bytes(segment[3:5], 'big')
            if 0 in size:
                break
        elif kind == _APP1 and segment.startswith(_EXIF):
            exif += segment[len(_EXIF) :]
        position += length
    raise ValueError(f'truncated or broken JPEG header in {len(data)} bytes')


def _check_scans(data: bytes, position: int) -> None:
    scans = 0
    for _ in range(MAX_SEGMENTS):
        found = _MARKER.search(data, position)
        if found is None or found[1][0] == _END:
            return
        position = found.end()
        if found[1][0] in _ALONE:
            continue
        scans += found[1][0] == _SCAN
        if scans > MAX_SCANS:
            raise ValueError(f'a JPEG of more than {MAX_SCANS} scans: save it again as baseline')
        position += max(2, int.from_bytes(data[position : position + 2], 'big'))
    raise ValueError(f'a JPEG of more than {MAX_SEGMENTS} segments')
