"""TIFF files of any depth: the values that tifffile and Pillow wrote, and no hostile one."""

import io
import struct
from contextlib import suppress

import numpy as np
import pytest
import tifffile
from PIL import Image

from ttl_mm.files.tiff import read_tiff, tiff_pages

RNG = np.random.default_rng(0)


def written(array, **options) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, **options)
    return buffer.getvalue()


def read(data: bytes) -> np.ndarray:
    return read_tiff(data, tiff_pages(data), 2**24)


@pytest.mark.parametrize('dtype', ['u1', 'u2', 'i2', 'u4', 'f4', 'f8'])
@pytest.mark.parametrize('channels', [1, 3, 8])
def test_what_tifffile_wrote(dtype, channels):
    image = (1000 * RNG.random((37, 53, channels))).astype(dtype)
    photometric = 'rgb' if channels == 3 else 'minisblack'
    options = [
        {}, {'compression': 'zlib'}, {'tile': (16, 32)}, {'rowsperstrip': 5}, {'byteorder': '>'},
        {'bigtiff': True}, {'planarconfig': 'separate'},
    ]  # fmt: skip
    if dtype[0] != 'f':
        options.append({'compression': 'zlib', 'predictor': True})
    for chosen in options:
        separate = chosen.get('planarconfig') == 'separate'
        if channels == 1:
            if separate:
                continue
            array = image[:, :, 0]
        else:
            array = image.transpose(2, 0, 1) if separate else image
            chosen = {'planarconfig': 'contig', **chosen}
        found = read(written(array, photometric=photometric, **chosen))
        assert found.dtype == image.dtype
        assert np.array_equal(found, image), chosen


@pytest.mark.parametrize('compression', ['tiff_lzw', 'packbits', 'tiff_adobe_deflate', None])
def test_what_pillow_wrote(compression):
    for image in (
        RNG.integers(0, 9, (300, 200)).astype('u1'),
        RNG.integers(0, 256, (90, 70, 3)).astype('u1'),
        RNG.integers(0, 4096, (90, 70)).astype('u2'),
        RNG.random((60, 70)).astype('f4'),
    ):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, 'TIFF', compression=compression)
        assert np.array_equal(read(buffer.getvalue()), image.reshape(*image.shape[:2], -1))


def test_the_float_predictor_of_libtiff():
    image, buffer = RNG.random((30, 41)).astype('f4'), io.BytesIO()
    options = {'compression': 'tiff_adobe_deflate', 'tiffinfo': {317: 3}}
    Image.fromarray(image).save(buffer, 'TIFF', **options)
    assert tiff_pages(buffer.getvalue())[0].predictor == 3
    assert np.array_equal(read(buffer.getvalue())[:, :, 0], image)


def test_pages_are_channels_and_smaller_copies_are_left_out():
    pages = RNG.integers(0, 4096, (5, 20, 30)).astype('u2')
    assert np.array_equal(read(written(pages, photometric='minisblack')), pages.transpose(1, 2, 0))
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as file:
        file.write(pages[0])
        file.write(pages[0, ::2, ::2], subfiletype=1)
    assert np.array_equal(read(buffer.getvalue())[:, :, 0], pages[0])
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as file:
        file.write(pages[0])
        file.write(pages[0, ::2, ::2])
    with pytest.raises(ValueError, match='pages of 30 x 20 and 15 x 10 pixels'):
        read(buffer.getvalue())


def test_damage_and_false_claims_are_refused():
    image = RNG.integers(0, 4096, (20, 30, 8)).astype('u2')
    whole = written(image, photometric='minisblack', planarconfig='contig')
    for end in (6, 9, 200, len(whole) // 2):
        with pytest.raises(ValueError, match='cut short'):
            read(whole[:end])
    with pytest.raises(ValueError, match='9600 bytes of pixels are more than 100'):
        read_tiff(whole, tiff_pages(whole), 100)
    # a directory that points to itself
    (first,) = struct.unpack_from('<I', whole, 4)
    (entries,) = struct.unpack_from('<H', whole, first)
    loop = bytearray(whole)
    struct.pack_into('<I', loop, first + 2 + 12 * entries, first)
    with pytest.raises(ValueError, match='never end'):
        tiff_pages(bytes(loop))
    # packed data that are damaged or too short
    packed = written(image, compression='zlib', photometric='minisblack', planarconfig='contig')
    page = tiff_pages(packed)[0]
    broken = bytearray(packed)
    broken[page.offsets[0]] ^= 0xFF
    with pytest.raises(ValueError, match='a damaged block'):
        read(bytes(broken))
    for compression, said in ((7, 'compression 7'), (5, 'no such code|unpacks to')):
        with pytest.raises(ValueError, match=said):
            read_tiff(packed, [page._replace(compression=compression)], 2**24)
    with pytest.raises(ValueError, match='unpacks to 9600 bytes in place of'):
        read_tiff(whole, [tiff_pages(whole)[0]._replace(height=40, block=(40, 30))], 2**24)


def test_every_flipped_byte_gives_an_image_or_a_value_error():
    image = RNG.integers(0, 4096, (9, 7, 4)).astype('u2')
    for options in ({}, {'compression': 'zlib'}, {'tile': (16, 16)}):
        data = written(image, photometric='minisblack', planarconfig='contig', **options)
        for at in range(0, len(data), 3):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            with suppress(ValueError):
                read(bytes(changed))
