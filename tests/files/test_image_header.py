import struct

import cv2
import mmcv
import numpy as np
import pytest
from PIL import ImageFile

from tests.helpers.images import encode, natural, png
from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.errors import UserError
from ttl_mm.files.image_header import MAX_SCANS, check_image, read_jpeg_header

IMAGE = natural(96, 128)


def with_scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is there ``count`` times more."""
    data = encode(IMAGE, 'JPEG', progressive=True)
    last = data.rindex(b'\xff\xda')
    return data[:-2] + data[last:-2] * count + data[-2:]


def segments(count: int) -> bytes:
    data = encode(IMAGE)
    return data[:2] + b'\xff\xe5\x00\x02' * count + data[2:]


def test_size_of_every_format_is_known_before_it_is_decoded():
    for kind in ('JPEG', 'PNG', 'WEBP', 'GIF', 'BMP', 'TIFF', 'PPM'):
        data = encode(IMAGE, kind)
        check_image(data, 96 * 128)
        with pytest.raises(ValueError, match='128 x 96 pixels are more than max_pixels=12287'):
            check_image(data, 96 * 128 - 1)
    header = read_jpeg_header(encode(IMAGE, exif=b'Exif\0\0II*\0' + bytes(20)))
    assert (header.height, header.width, header.exif[:4]) == (96, 128, b'II*\0')


def bombs():
    side = 1 << 26
    yield png(1, side, 8, 0, b''), 'more than max_pixels'
    yield png(70_000, 1, 8, 0, b''), 'a side may have 65500'
    bmp = struct.pack('<2sIIIIiiHH6I', b'BM', 54, 0, 54, 40, 1, -70_000, 1, 24, 0, 0, 0, 0, 0, 0)
    yield bmp, 'a side may have'
    yield with_scans(10_000), f'more than {MAX_SCANS} scans'
    yield segments(20_000), 'broken JPEG header'
    yield b'<html>', 'not a known image'


def test_bombs_are_refused_before_a_pixel_is_decoded_in_our_loader_and_in_that_of_mmcv(
    tmp_path, monkeypatch
):
    for module, name in ((cv2, 'imdecode'), (cv2, 'imread'), (ImageFile.ImageFile, 'load')):
        monkeypatch.setattr(module, name, lambda *args, **kwargs: pytest.fail('decoded'))
    for data, message in bombs():
        with pytest.raises(BadImageError, match=message):
            decode_image(data)
        with pytest.raises(UserError, match=message):
            mmcv.imfrombytes(data)
        (tmp_path / 'a.png').write_bytes(data)
        with pytest.raises(UserError, match=message):
            mmcv.imread(str(tmp_path / 'a.png'))


def test_a_second_image_behind_the_first_is_not_looked_at():
    two = encode(IMAGE)[:-2] + encode(IMAGE[:48])[2:]
    header = read_jpeg_header(two)
    assert (header.height, header.width) == (96, 128)


def test_images_within_the_limits_are_decoded_as_before():
    many = with_scans(MAX_SCANS - 20)
    np.testing.assert_array_equal(decode_image(many), mmcv.imfrombytes(many))
    thumbnails = encode(IMAGE)[:2] + b'\xff\xe5\x03\xea' + b'\xff\xda' * 500 + encode(IMAGE)[2:]
    expected = cv2.imdecode(np.frombuffer(encode(IMAGE), np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(decode_image(thumbnails), expected)  # metadata are no scans
    np.testing.assert_array_equal(mmcv.imfrombytes(thumbnails), expected)


def test_a_png_chunk_that_the_file_does_not_have_is_refused_before_opencv_makes_room_for_it():
    data = encode(IMAGE, 'PNG')
    place = data.index(b'IDAT') - 4
    bomb = data[:place] + struct.pack('>I', 0x504B0102) + data[place + 4 :]  # found by make fuzz
    with pytest.raises(UserError, match='a chunk of 1347092738 bytes in a PNG of'):
        mmcv.imfrombytes(bomb)
