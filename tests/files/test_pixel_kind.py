"""The kind of an image is read from its header."""

import io

import numpy as np
import pytest
import tifffile

from tests.helpers.images import encode
from ttl_mm.files.pixel_kind import image_shape, pixel_kind

RGB = np.zeros((9, 8, 3), np.uint8)


def test_kinds():
    def tiff(array, **options):
        buffer = io.BytesIO()
        tifffile.imwrite(buffer, array, **options)
        return buffer.getvalue()

    def npy(array):
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    rgba, deep = np.zeros((9, 8, 4), np.uint8), np.zeros((9, 8), np.uint16)
    contig = {'planarconfig': 'contig'}
    for data, channels, dtype, alpha, plain in [
        (encode(RGB), 3, 'u1', False, True),
        (encode(RGB, 'PNG'), 3, 'u1', False, True),
        (encode(RGB[:, :, 0], 'PNG'), 3, 'u1', False, True),  # read as three channels, as ever
        (encode(rgba, 'PNG'), 3, 'u1', True, True),
        (encode(deep, 'PNG'), 1, 'u2', False, False),
        (encode(RGB, 'TIFF'), 3, 'u1', False, True),
        (encode(RGB[:, :, 0], 'TIFF', '1'), 3, 'u1', False, True),
        (encode(rgba, 'TIFF'), 3, 'u1', True, True),
        (tiff(rgba, photometric='rgb', extrasamples=[0], **contig), 4, 'u1', False, False),
        (tiff(deep), 1, 'u2', False, False),
        (tiff(deep.astype('f4')), 1, 'f4', False, False),
        (tiff(np.zeros((5, 9, 8), 'u1'), photometric='minisblack'), 5, 'u1', False, False),
        (npy(np.zeros((9, 8, 6), '>f8')), 6, 'f8', False, False),
        (npy(deep), 1, 'u2', False, False),
        (b'GIF89a', 3, 'u1', False, True),
    ]:
        kind = pixel_kind(data)
        assert kind == (channels, np.dtype(dtype), alpha, plain)
    for data in (b'II*\0', npy(np.zeros(4)), npy(deep)[:-1], b'\x93NUMPY'):
        with pytest.raises(ValueError, match=r'\w'):
            pixel_kind(data)


def test_channels_of_an_array():
    assert image_shape((64, 48)) == (64, 48, 1)
    assert image_shape((64, 48, 8)) == (64, 48, 8)
    assert image_shape((8, 64, 48)) == (64, 48, 8)
    for shape in ((4,), (2, 3, 4, 5), (0, 4, 4)):
        with pytest.raises(ValueError, match='is no image'):
            image_shape(shape)
