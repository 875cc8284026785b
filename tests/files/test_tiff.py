"""TIFF files of any depth: the values that tifffile and Pillow wrote, and no hostile one."""

import io
import struct
from contextlib import suppress

import numpy as np
import pytest
import tifffile
from PIL import Image

from ttl_mm.files.pixel_kind import pixel_kind
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


COMPRESSIONS = ['tiff_lzw', 'packbits', 'tiff_adobe_deflate', 'zstd', 'lzma', None]


@pytest.mark.parametrize('compression', COMPRESSIONS)
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


def geotiff(image, nodata, **options) -> bytes:
    """With the tags that GDAL writes: place, projection, pixels without data."""
    place = [(33550, 'd', 3, (10.0, 10.0, 0.0), True), (34735, 'H', 4, (1, 1, 0, 0), True),
             (33922, 'd', 6, (0.0, 0.0, 0.0, 4e5, 5e6, 0.0), True)]  # fmt: skip
    return written(image, extratags=[*place, (42113, 's', 0, nodata, True)], **options)


@pytest.mark.parametrize(
    ('dtype', 'nodata', 'as_read'),
    [('i2', '-9999', 'f4'), ('u2', '0', 'f4'), ('f4', '-3.4028234663852886e+38', 'f4'),
     ('f4', 'nan', 'f4'), ('i4', '-2147483648', 'f8'), ('u1', '255', 'f4'), ('u2', '70000', 'f4')],
)  # fmt: skip
def test_pixels_without_data_are_nan(dtype, nodata, as_read):
    image = RNG.integers(1, 200, (40, 33, 4)).astype(dtype)
    value = float(nodata)
    holes = RNG.random(image.shape) < 0.2
    if nodata != '70000':  # a value that 16 bit cannot hold marks nothing
        image[holes] = value
    data = geotiff(image, nodata, photometric='minisblack', planarconfig='contig', tile=(16, 16))
    found = read(data)
    assert pixel_kind(data)[:2] == (4, np.dtype(as_read))
    assert found.dtype == as_read
    expected = image.astype(as_read)
    if nodata != '70000':
        expected[holes] = np.nan
    assert np.array_equal(found, expected, equal_nan=True)


def test_blocks_that_were_left_out_have_no_data():
    image = RNG.integers(1, 200, (32, 32)).astype('u2')
    data = geotiff(image, '0', tile=(16, 16))
    page = tiff_pages(data)[0]
    sparse = page._replace(offsets=(page.offsets[0], 0, *page.offsets[2:]),
                           counts=(page.counts[0], 0, *page.counts[2:]))  # fmt: skip
    found = read_tiff(data, [sparse], 2**24)[:, :, 0]
    assert np.isnan(found[:16, 16:]).all()
    assert np.array_equal(found[16:], image[16:])
    found = read_tiff(data, [sparse._replace(nodata=None)], 2**24)[:, :, 0]
    assert found.dtype == np.uint16
    assert (found[:16, 16:] == 0).all()


def test_tiles_that_are_larger_than_any_image_are_refused():
    image = RNG.integers(1, 200, (9, 9)).astype('u2')
    page = tiff_pages(written(image, tile=(16, 16), compression='zlib'))[0]
    with pytest.raises(ValueError, match='in tiles of 34359738368 bytes'):
        read_tiff(b'', [page._replace(block=(2**17, 2**17))], 2**24)


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
    for compression, said in ((7, 'compression 7'), (5, 'a damaged block')):
        with pytest.raises(ValueError, match=said):
            read_tiff(packed, [page._replace(compression=compression)], 2**24)
    with pytest.raises(ValueError, match='unpacks to 9600 bytes in place of'):
        read_tiff(whole, [tiff_pages(whole)[0]._replace(height=40, block=(40, 30))], 2**24)


def test_a_directory_beyond_all_files_is_refused():
    whole = written(np.ones((4, 4), 'u2'), bigtiff=True)
    with pytest.raises(ValueError, match='nothing at byte 18446744073709551615'):
        tiff_pages(whole[:8] + b'\xff' * 8 + whole[16:])


def test_every_flipped_byte_gives_an_image_or_a_value_error():
    image = RNG.integers(0, 4096, (9, 7, 4)).astype('u2')
    for options in ({}, {'compression': 'zlib'}, {'tile': (16, 16)}):
        data = written(image, photometric='minisblack', planarconfig='contig', **options)
        for at in range(0, len(data), 3):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            with suppress(ValueError):
                read(bytes(changed))
