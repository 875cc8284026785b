"""TIFF files of any depth and number of channels, as microscopes and satellites write them.

Pillow and OpenCV read four channels at most, and Pillow 16 bit in one channel alone. Here every
claim of a header is checked against the bytes that are there, and nothing is unpacked beyond the
size that the header gives. GeoTIFF is TIFF: the tags that tell where on earth a pixel lies are
passed over, and pixels without data become NaN.
"""

import io
import math
import struct
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

MAX_PAGES = 1024
MAX_ENTRIES = 4096  # of a directory
MAX_VALUES = 2**22  # of an entry
_TYPES = {1: 'B', 2: 'B', 3: 'H', 4: 'I', 16: 'Q'}  # the others hold no number that is needed here
_KINDS = {1: 'u', 2: 'i', 3: 'f'}
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_STRIPS, _SAMPLES, _ROWS, _STRIP_BYTES, _PLANAR, _PREDICTOR = 273, 277, 278, 279, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_BYTES, _EXTRA, _FORMAT = 322, 323, 324, 325, 338, 339
_SUBFILE, _NODATA = 254, 42113
_PALETTE = 3
_ALPHA = (1, 2)  # kinds of an extra channel


class TiffPage(NamedTuple):
    """One image of a TIFF file, as its directory describes it."""

    height: int
    width: int
    samples: int
    dtype: np.dtype | None  # None for what only Pillow reads: 1, 2 or 4 bit
    photometric: int
    extra: tuple[int, ...]  # kinds of the channels beyond gray or RGB
    planar: bool
    compression: int
    predictor: int
    block: tuple[int, int]  # height and width of a strip or tile
    tiled: bool
    offsets: tuple[int, ...]
    counts: tuple[int, ...]
    nodata: float | None  # the value of pixels without data, as GDAL writes it

    @property
    def stored(self) -> np.dtype:
        """The type of the values that are read: float where some of them may be NaN."""
        assert self.dtype is not None
        if self.nodata is None or self.dtype.kind == 'f':
            return self.dtype.newbyteorder('=')
        return np.dtype(np.float32 if self.dtype.itemsize <= 2 else np.float64)

    @property
    def is_plain(self) -> bool:
        """Whether this is what every program reads: 8 bit, gray or RGB or palette, maybe alpha."""
        if self.dtype is None or self.photometric == _PALETTE:
            return True
        colors = self.samples - sum(kind in _ALPHA for kind in self.extra)
        return self.dtype == np.uint8 and colors in (1, 3)


def is_tiff(data: bytes) -> bool:
    """Whether this is the content of a TIFF file, also of one that may exceed 4 GB."""
    return data[:4] in (b'II*\0', b'MM\0*', b'II+\0', b'MM\0+')


def tiff_pages(data: bytes) -> list[TiffPage]:
    """The images in a file, without those that repeat another one at lower resolution.

    Raises:
        ValueError: It is damaged, or has more pages than allowed.
    """
    reader = _Reader(data)
    pages: list[TiffPage] = []
    seen: set[int] = set()
    position = reader.first
    while position:
        if position in seen or len(seen) >= MAX_PAGES:
            raise ValueError(f'a TIFF whose pages never end, or more than {MAX_PAGES}')
        seen.add(position)
        tags, position = reader.directory(position)
        if not tags.get(_SUBFILE, (0,))[0] & 5:  # 1: smaller copy, 4: mask
            pages.append(_page(tags, reader.order))
    if not pages:
        raise ValueError('a TIFF without an image')
    return pages


def read_tiff(data: bytes, pages: list[TiffPage], max_bytes: int) -> np.ndarray:
    """All pages, which are of one size, as the channels of one image: (H, W, C).

    Raises:
        ValueError: It is damaged, too large, or packed in a way that is not read here.
    """
    first = pages[0]
    for page in pages:
        if (page.height, page.width, page.dtype) != (first.height, first.width, first.dtype):
            raise ValueError(
                f'pages of {first.width} x {first.height} and {page.width} x {page.height} pixels, '
                'or of another depth, cannot be the channels of one image'
            )
    if first.dtype is None:
        raise ValueError('a TIFF with less than 8 bit or another depth that is not read here')
    channels = sum(page.samples for page in pages)
    size = first.height * first.width * channels * first.stored.itemsize
    if size > max_bytes:
        raise ValueError(f'{size} bytes of pixels are more than {max_bytes}; shrink the image')
    return np.concatenate([_read_page(data, page, max_bytes) for page in pages], axis=2)


class _Reader:
    """Directories of a file of either byte order and size."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.order = '<' if data[:2] == b'II' else '>'
        self.big = data[2:4] in (b'+\0', b'\0+')
        self.word = 'Q' if self.big else 'I'
        (self.first,) = self._unpack(self.word, 8 if self.big else 4)

    def _unpack(self, form: str, position: int) -> tuple[Any, ...]:
        try:
            return struct.unpack_from(self.order + form, self.data, position)
        except (struct.error, OverflowError):  # there is no such byte in any file
            raise ValueError(f'a TIFF that is cut short: nothing at byte {position}') from None

    def directory(self, position: int) -> tuple[dict[int, tuple[int, ...]], int]:
        """The numbers of a directory by tag, and where the next one is."""
        (count,) = self._unpack('Q' if self.big else 'H', position)
        if count > MAX_ENTRIES:
            raise ValueError(f'a TIFF directory of {count} entries')
        position += 8 if self.big else 2
        inline, entry = struct.calcsize(self.word), 20 if self.big else 12
        tags = {}
        for at in range(position, position + entry * count, entry):
            tag, kind, number = self._unpack(f'HH{self.word}', at)
            if kind not in _TYPES or not number:
                continue
            if number > MAX_VALUES:
                raise ValueError(f'a TIFF entry of {number} values')
            form = f'{number}{_TYPES[kind]}'
            place = at + 4 + inline
            if struct.calcsize(f'={form}') > inline:
                (place,) = self._unpack(self.word, place)
            if tag in _NEEDED:
                tags[tag] = self._unpack(form, place)
        return tags, self._unpack(self.word, position + entry * count)[0]


_NEEDED = {
    _SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _STRIPS, _SAMPLES, _ROWS,
    _STRIP_BYTES, _PLANAR, _PREDICTOR, _TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_BYTES, _EXTRA,
    _FORMAT, _NODATA,
}  # fmt: skip


def _page(tags: dict[int, tuple[int, ...]], order: str) -> TiffPage:
    def one(tag: int, default: int) -> int:
        return tags.get(tag, (default,))[0]

    height, width, samples = one(_HEIGHT, 0), one(_WIDTH, 0), one(_SAMPLES, 1)
    if not (height and width and samples):
        raise ValueError(f'a TIFF page of {width} x {height} pixels in {samples} channels')
    bits, formats = set(tags.get(_BITS, (1,))), set(tags.get(_FORMAT, (1,)))
    dtype = None
    if len(bits) == len(formats) == 1:
        name = f'{order}{_KINDS.get(min(formats), "V")}{min(bits) // 8}'
        if name[1:] in ('u1', 'u2', 'u4', 'i1', 'i2', 'i4', 'f2', 'f4', 'f8'):
            dtype = np.dtype(name) if min(bits) % 8 == 0 else None
    tiled = _TILES in tags
    block = (min(one(_ROWS, height), height), width)
    if tiled:
        block = (one(_TILE_HEIGHT, 0), one(_TILE_WIDTH, 0))
    if not all(block) or max(block) > 2**17:
        raise ValueError(f'a TIFF in blocks of {block[1]} x {block[0]} pixels')
    return TiffPage(
        height, width, samples, dtype, one(_PHOTOMETRIC, 1), tags.get(_EXTRA, ()),
        one(_PLANAR, 1) == 2 and samples > 1, one(_COMPRESSION, 1), one(_PREDICTOR, 1), block,
        tiled, tags.get(_TILES if tiled else _STRIPS, ()),
        tags.get(_TILE_BYTES if tiled else _STRIP_BYTES, ()), _number(tags.get(_NODATA, ())),
    )  # fmt: skip


def _number(text: tuple[int, ...]) -> float | None:
    """Of an entry of characters; None if there is none."""
    try:
        return float(bytes(text).split(b'\0')[0])
    except ValueError:
        return None


def _read_page(data: bytes, page: TiffPage, max_bytes: int) -> np.ndarray:
    assert page.dtype is not None
    (rows, columns), planes = page.block, page.samples if page.planar else 1
    down, across = math.ceil(page.height / rows), math.ceil(page.width / columns)
    needed = down * across * planes
    if len(page.offsets) != needed or len(page.counts) != needed:
        raise ValueError(f'{len(page.offsets)} blocks of {needed} are in a TIFF')
    inner = page.samples // planes
    block_bytes = rows * columns * inner * page.dtype.itemsize  # of a tile, also beyond the image
    if block_bytes > max_bytes:
        raise ValueError(f'a TIFF in tiles of {block_bytes} bytes, {max_bytes} are allowed')
    shape = page.height, page.width, page.samples
    image = np.zeros(shape, page.dtype.newbyteorder('='))
    missing = np.zeros(shape if 0 in page.counts else (0, 0, 0), bool)
    for number, (offset, count) in enumerate(zip(page.offsets, page.counts)):
        plane, place = divmod(number, down * across)
        top, left = place // across * rows, place % across * columns
        # the last strip is cut, the last tile is not
        height = rows if page.tiled else min(rows, page.height - top)
        where = np.s_[top : top + rows, left : left + columns, plane * inner : (plane + 1) * inner]
        if not (offset or count):  # GDAL leaves out blocks without data
            missing[where] = True
            continue
        packed = data[offset : offset + count]
        if len(packed) != count:
            raise ValueError(f'a TIFF that is cut short: {len(packed)} of {count} bytes of a block')
        block = _block(packed, page, (height, columns, inner))
        part = image[where]
        part[...] = block[: part.shape[0], : part.shape[1]]
    if page.nodata is None:
        return image
    with np.errstate(over='ignore'):  # a value that the type cannot hold marks nothing
        gaps = image == page.nodata  # NaN is NaN already
    if missing.size:
        gaps |= missing
    image = image.astype(page.stored, copy=False)
    image[gaps] = np.nan
    return image


def _block(packed: bytes, page: TiffPage, shape: tuple[int, int, int]) -> np.ndarray:
    """The values of a strip or tile."""
    assert page.dtype is not None
    size = math.prod(shape) * page.dtype.itemsize
    if page.compression not in _UNPACK:
        raise ValueError(
            f'a TIFF of compression {page.compression}: save it with deflate, LZW, ZSTD, or without'
        )
    content = _UNPACK[page.compression](packed, size)
    if len(content) < size:
        raise ValueError(f'a block of a TIFF unpacks to {len(content)} bytes in place of {size}')
    if page.predictor == 3:
        return _undo_float_predictor(content[:size], page.dtype, shape)
    values = np.frombuffer(content, page.dtype, math.prod(shape)).reshape(shape)
    if page.predictor == 2:
        return np.cumsum(values, axis=1, dtype=page.dtype.newbyteorder('='))
    if page.predictor != 1:
        raise ValueError(f'a TIFF with predictor {page.predictor}, which is not read here')
    return values


def _undo_float_predictor(
    content: bytes, dtype: np.dtype, shape: tuple[int, int, int]
) -> np.ndarray:
    """Rows hold the differences of neighboring bytes, all most significant bytes first."""
    height, _, samples = shape
    table = np.frombuffer(content, np.uint8).reshape(height, -1, samples)
    rows = np.cumsum(table, axis=1, dtype=np.uint8).reshape(height, dtype.itemsize, -1)
    values = np.ascontiguousarray(rows.transpose(0, 2, 1)).view(dtype.newbyteorder('>'))
    return values.reshape(shape)


def _inflate(packed: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, size)
    except zlib.error as error:
        raise ValueError(f'a damaged block of a TIFF: {error}') from None


def unpack_with_libtiff(compression: int, packed: bytes, size: int) -> bytes:
    """Blocks that are packed as bytes, whatever these mean: as a gray image of one row in Pillow.

    The header is ours, so the result cannot be larger than the block.
    """
    entries = [(_WIDTH, size), (_HEIGHT, 1), (_BITS, 8), (_COMPRESSION, compression),
               (_PHOTOMETRIC, 1), (_STRIPS, 8 + 2 + 12 * 8 + 4), (_ROWS, 1),
               (_STRIP_BYTES, len(packed))]  # fmt: skip
    directory = b''.join(struct.pack('<HHII', tag, 4, 1, value) for tag, value in entries)
    header = struct.pack('<4sIH', b'II*\0', 8, len(entries)) + directory + bytes(4)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # Pillow's own limit on pixels
            return Image.open(io.BytesIO(header + packed), formats=['TIFF']).tobytes()
    except Exception as error:  # OSError, struct.error, SyntaxError and others
        raise ValueError(f'a damaged block of a TIFF: {error}') from None


_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {
    1: lambda packed, size: packed,
    8: _inflate,
    32946: _inflate,
    # LZW, PackBits, LZMA, Zstandard
    **{kind: partial(unpack_with_libtiff, kind) for kind in (5, 32773, 34925, 50000)},
}
