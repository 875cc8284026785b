"""DICOM files of X-rays, CT and other scanners, read by pydicom (extra ``dicom``).

What the file of a stranger may cost is bounded before pydicom's own code could run away with it:
how often its parser reads, and so how many elements there are and how deeply they lie in each
other; how many pixels there are; and which size each packed frame says it has.
"""

import io
import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttl_mm.files.image_header import (
    MAX_PIXELS,
    check_size,
    is_jpeg,
    open_with_pillow,
    read_jpeg_header,
)
from ttl_mm.files.tiff import unpack_with_libtiff

if TYPE_CHECKING:
    from pydicom import Dataset

MAX_READS = 2**16  # of the parser; an element takes one to three
MAX_FRAMES = 1024
VALUES_PER_PIXEL = 4  # on average over an image of max_pixels
PIXELS = ('PixelData', 'FloatPixelData', 'DoubleFloatPixelData')
_SIZE, _COUNTS = ('Rows', 'Columns', 'BitsAllocated'), ('SamplesPerPixel', 'NumberOfFrames')
_SETTINGS = [
    *_SIZE, *_COUNTS, 'BitsStored', 'HighBit', 'PhotometricInterpretation',
    'PixelPaddingRangeLimit', 'PixelPaddingValue', 'PixelRepresentation', 'PlanarConfiguration',
    'RescaleIntercept', 'RescaleSlope',
    *(f'{color}PaletteColorLookupTable{part}' for color in ('Red', 'Green', 'Blue')
      for part in ('Data', 'Descriptor')),
]  # fmt: skip
_RLE, _PACKBITS = '1.2.840.10008.1.2.5', 32773  # as DICOM and as TIFF call it


class DicomHeader(NamedTuple):
    """What the elements of a file say about its pixels."""

    height: int
    width: int
    samples: int  # values of a pixel in the file; a palette makes three of one
    frames: int
    bits: int  # of a value
    photometric: str

    @property
    def channels(self) -> int:
        """Of the image: the frames of a file are its channels, as the pages of a TIFF are."""
        return self.frames * (3 if self.photometric == 'PALETTE COLOR' else self.samples)

    @property
    def dtype(self) -> np.dtype:
        """Of the values on the scale of the scanner, which may be fractions or missing."""
        return np.dtype(np.float32 if self.bits <= 16 else np.float64)


class _CountedReads(io.BytesIO):
    """The content of a file, that answers no parser for ever."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        if self.reads > MAX_READS:
            raise ValueError(f'a DICOM file of more than {MAX_READS // 3} elements')
        if size is None or size < 0:  # pydicom is about to unpack all of it
            raise ValueError('a DICOM file that is deflated as a whole: save it in another syntax')
        return super().read(size)


def is_dicom(data: bytes) -> bool:
    """Whether this is the content of a DICOM file."""
    return data[128:132] == b'DICM'


def dicom_header(data: bytes) -> DicomHeader:
    """What the elements say about the pixels.

    Raises:
        ValueError: It is damaged, or pydicom is missing.
    """
    return _header(_elements(data, _SETTINGS))


def read_dicom(data: bytes, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The pixels on the scale of the scanner, (H, W, C); those outside of its view are NaN.

    Three channels are red, green, blue.

    Raises:
        ValueError: It is damaged, too large, or packed in a way that nothing here unpacks.
    """
    elements = _elements(data, [*_SETTINGS, *PIXELS])
    header = _header(elements)
    check_size(header.height, header.width, max_pixels)
    values = header.height * header.width * header.channels
    if values > VALUES_PER_PIXEL * max_pixels:
        raise ValueError(
            f'{values} values in {header.frames} frames are more than '
            f'{VALUES_PER_PIXEL * max_pixels}; split the file or shrink its frames'
        )
    try:
        with _quietly():
            return _on_scale(_stored(elements, header), elements, header)
    except Exception as error:  # of many kinds: plugins of pydicom raise what they like
        raise ValueError(f'a DICOM file that cannot be decoded: {_in_one_line(error)}') from error


def _elements(data: bytes, names: list[str]) -> 'Dataset':
    try:
        import pydicom
    except ImportError:
        raise ValueError(
            'a DICOM file, which needs a package: pip install "ttl-mm[dicom]"'
        ) from None
    try:
        with _quietly():
            stop = 'PixelData' not in names
            return pydicom.dcmread(
                _CountedReads(data), specific_tags=names, stop_before_pixels=stop
            )
    except RecursionError:
        raise ValueError('a DICOM file whose elements lie too deeply in each other') from None
    except Exception as error:  # of many kinds
        raise ValueError(f'a damaged DICOM file: {_in_one_line(error)}') from error


def _in_one_line(error: Exception) -> str:
    return ' '.join(str(error).split())[:400] or type(error).__name__


def _header(elements: 'Dataset') -> DicomHeader:
    try:
        with _quietly():  # values are parsed when they are asked for
            height, width, bits = (int(elements[n].value) for n in _SIZE)
            samples, frames = (int(elements.get(n) or 1) for n in _COUNTS)
            photometric = str(elements.get('PhotometricInterpretation') or 'MONOCHROME2')
    except Exception as error:  # no value, or one of another kind
        raise ValueError(f'a DICOM file without an image: {_in_one_line(error)}') from error
    if not (height and width and samples in (1, 3) and bits in (1, 8, 16, 32, 64)):
        raise ValueError(
            f'a DICOM image of {width} x {height} pixels, {samples} values of {bits} bit each'
        )
    if not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f'a DICOM file of {frames} frames: 1 to {MAX_FRAMES} are read')
    return DicomHeader(height, width, samples, frames, bits, photometric)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of pydicom about padding, and about what it finds odd in a header."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield


def _stored(elements: 'Dataset', header: DicomHeader) -> np.ndarray:
    """The values as they are stored: (frames, H, W, samples)."""
    from pydicom.encaps import generate_frames
    from pydicom.pixels import get_decoder

    syntax = elements.file_meta.TransferSyntaxUID
    shape = header.frames, header.height, header.width, header.samples
    if syntax.is_encapsulated:
        parts = generate_frames(elements.PixelData, number_of_frames=header.frames)
        frames = [frame for _, frame in zip(range(header.frames), parts)]
        if len(frames) < header.frames:
            raise ValueError(f'{len(frames)} of {header.frames} frames are there')
        if syntax == _RLE:
            signed = elements.get('PixelRepresentation') == 1
            return np.stack([_unpack_rle(frame, header, signed) for frame in frames])
        for frame in frames:
            _check_frame(frame, header)
    decoder = get_decoder(syntax)
    if not decoder.is_available:
        raise ValueError(
            f'{syntax.name} needs a plugin of pydicom: {", or ".join(decoder.missing_dependencies)}'
        )
    return decoder.as_array(elements, allow_excess_frames=False)[0].reshape(shape)


def _check_frame(frame: bytes, header: DicomHeader) -> None:
    """Refuse a JPEG of another size than the elements say, before somebody makes room for it."""
    found = read_jpeg_header(frame) if is_jpeg(frame) else open_with_pillow(frame)
    if (found.width, found.height) != (header.width, header.height):
        raise ValueError(
            f'a frame of {found.width} x {found.height} pixels in an image of '
            f'{header.width} x {header.height}'
        )


def _unpack_rle(frame: bytes, header: DicomHeader, signed: bool) -> np.ndarray:
    """(H, W, samples) from planes of bytes, the most significant first, each packed by itself."""
    number, *offsets = struct.unpack_from('<16I', frame)
    if header.bits % 8 or number != header.samples * header.bits // 8 or number > 15:
        raise ValueError(f'{number} planes for {header.samples} values of {header.bits} bit')
    ends = [*offsets[1:number], len(frame)]
    pixels = header.height * header.width
    planes = [unpack_with_libtiff(_PACKBITS, frame[a:b], pixels) for a, b in zip(offsets, ends)]
    table = np.frombuffer(b''.join(planes), np.uint8)
    table = table.reshape(header.samples, header.bits // 8, header.height, header.width)
    dtype = f'>{"i" if signed else "u"}{header.bits // 8}'
    return np.ascontiguousarray(table.transpose(2, 3, 0, 1)).view(dtype)[..., 0]


def _on_scale(stored: np.ndarray, elements: 'Dataset', header: DicomHeader) -> np.ndarray:
    """(H, W, C) with slope and intercept applied, and white above black."""
    from pydicom.pixels import apply_color_lut

    stored = _without_overlay(stored, elements)
    if header.photometric == 'PALETTE COLOR':
        stored = np.stack([apply_color_lut(frame[..., 0], elements) for frame in stored])
    image = np.concatenate(list(stored), axis=2).astype(header.dtype)
    outside = _outside(image, elements)
    if header.photometric == 'MONOCHROME1':
        image = -image
    slope, intercept = (
        float(elements.get(name, default)) for name, default in
        (('RescaleSlope', 1), ('RescaleIntercept', 0))
    )  # fmt: skip
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ValueError(f'a scale of {slope} and {intercept}')
    image = (image * slope + intercept).astype(header.dtype, copy=False)
    image[outside] = np.nan
    return image


def _without_overlay(image: np.ndarray, elements: 'Dataset') -> np.ndarray:
    """Only the bits that belong to the values: old scanners draw into the others."""
    unused = image.dtype.itemsize * 8 - int(elements.get('BitsStored') or image.dtype.itemsize * 8)
    if image.dtype.kind not in 'iu' or not 0 < unused < image.dtype.itemsize * 8:
        return image
    return (image << unused) >> unused  # of signed values, the sign comes along


def _outside(image: np.ndarray, elements: 'Dataset') -> np.ndarray:
    """Which pixels are padding, such as those beyond the circle that a CT sees."""
    value: Any = elements.get('PixelPaddingValue')
    if value is None:
        return np.zeros(image.shape, bool)
    limit = elements.get('PixelPaddingRangeLimit', value)
    low, high = sorted((float(value), float(limit)))
    return (image >= low) & (image <= high)
