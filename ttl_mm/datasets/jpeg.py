"""What must be known about a JPEG before it is decoded: size, orientation, completeness."""

import struct
from typing import NamedTuple

# Start-of-frame markers: all of 0xC0..0xCF except DHT (C4), JPG (C8) and DAC (CC).
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SOS, _EOI, _APP1 = 0xDA, 0xD9, 0xE1
_WITHOUT_PAYLOAD = frozenset(range(0xD0, 0xD9)) | {0x01}  # RSTn, SOI, TEM


class JpegHeader(NamedTuple):
    """Stored size and EXIF orientation (1 where there is none)."""

    height: int
    width: int
    orientation: int


def read_jpeg_header(data: bytes) -> JpegHeader:
    """Walk the segments up to the first scan.

    Raises:
        ValueError: No scan, no size, or no end-of-image marker after the scan: a truncated file,
            the rest of which OpenCV would silently fill with gray.
    """
    height = width = 0
    orientation = 1
    for marker, start, end in _segments(data):
        if marker in _SOF and end - start >= 5:
            height, width = struct.unpack_from('>HH', data, start + 1)
        elif marker == _APP1 and data[start : start + 6] == b'Exif\0\0':
            orientation = exif_orientation(data[start + 6 : end])
        elif marker == _SOS:
            if not height or not width:
                raise ValueError(f'JPEG of size {width} x {height}')
            # inside a scan a 0xFF is always followed by 00, so FF D9 can only be the end
            if data.rfind(b'\xff\xd9', end) < 0:
                raise ValueError(f'truncated JPEG: no end marker in {len(data)} bytes')
            return JpegHeader(height, width, orientation)
    raise ValueError(f'truncated JPEG: no scan in {len(data)} bytes')


def _segments(data: bytes):
    """Yield (marker, start of payload, end of payload) of each complete segment."""
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:  # stray bytes between segments are skipped, as libjpeg does
            position = data.find(b'\xff', position)
            if position < 0:
                return
            continue
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _WITHOUT_PAYLOAD:
            position += 2
        elif marker == _EOI:
            return
        else:
            end = position + 2 + int.from_bytes(data[position + 2 : position + 4], 'big')
            if end > len(data):
                return
            yield marker, position + 4, end
            position = end


def exif_orientation(tiff: bytes) -> int:
    """Tag 0x0112 of the first directory of an EXIF block; 1 if missing or broken."""
    order = {b'II': '<', b'MM': '>'}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (directory,) = struct.unpack_from(order + 'I', tiff, 4)
        (entries,) = struct.unpack_from(order + 'H', tiff, directory)
        for i in range(entries):
            tag, kind, _, value = struct.unpack_from(order + 'HHIH', tiff, directory + 2 + 12 * i)
            if tag == 0x0112 and kind == 3 and 1 <= value <= 8:
                return value
    except struct.error:
        pass
    return 1
