import struct

from tests.helpers.images import encode, natural
from ttl_mm.datasets.jpeg import JpegHeader, exif_orientation, read_jpeg_header

PLAIN = encode(natural(6, 9))


def exif(byte_order: str, orientation: int, kind: int = 3) -> bytes:
    """A block with one directory of one entry."""
    tiff = {'>': b'MM', '<': b'II'}[byte_order]
    return tiff + struct.pack(byte_order + 'HIHHHIHH', 42, 8, 1, 0x0112, kind, 1, orientation, 0)


def test_orientation_in_both_byte_orders():
    for byte_order in '<>':
        payload = b'Exif\0\0' + exif(byte_order, 6)
        segment = b'\xff\xe1' + struct.pack('>H', len(payload) + 2) + payload
        header = read_jpeg_header(PLAIN[:2] + segment + PLAIN[2:])
        assert header == JpegHeader(height=6, width=9, orientation=6)


def test_a_missing_or_broken_orientation_is_upright():
    assert read_jpeg_header(PLAIN).orientation == 1
    for block in (b'', b'XX', exif('<', 9), exif('<', 6, kind=4), exif('>', 6)[:15]):
        assert exif_orientation(block) == 1


def test_stray_and_fill_bytes_between_segments_are_skipped():
    assert read_jpeg_header(PLAIN[:2] + b'\0\0\xff\xff' + PLAIN[3:]) == JpegHeader(6, 9, 1)
