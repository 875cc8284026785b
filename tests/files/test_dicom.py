"""DICOM files: the values that pydicom reads, on the scale of the scanner, and no hostile file."""

import io
import struct
import warnings

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file

from tests.helpers.images import dicom, encode, natural
from ttl_mm.datasets.bands import measure, read_bands
from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.files import dicom as module
from ttl_mm.files.dicom import dicom_header, read_dicom
from ttl_mm.files.pixel_kind import pixel_kind

# kinds of packing, depth, frames and color that pydicom ships and can unpack without plugins
SHIPPED = [
    'CT_small.dcm', 'MR_small.dcm', 'MR_small_RLE.dcm', 'MR_small_bigendian.dcm',
    'MR_small_implicit.dcm', 'MR_small_jp2klossless.dcm', 'JPEG2000.dcm', 'liver_1frame.dcm',
    'SC_rgb_jpeg_dcmtk.dcm', 'SC_rgb_rle_16bit_2frame.dcm', 'SC_rgb_rle_32bit.dcm',
    'SC_rgb_small_odd_big_endian.dcm', 'SC_ybr_full_422_uncompressed.dcm', 'rtdose.dcm',
    'rtdose_rle.dcm', 'examples_overlay.dcm', '693_J2KI.dcm',
]  # fmt: skip


def content(name: str) -> bytes:
    with open(get_testdata_file(name, download=False), 'rb') as file:
        return file.read()


@pytest.mark.parametrize('name', SHIPPED)
def test_what_pydicom_reads(name):
    data = content(name)
    image = read_dicom(data)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of pydicom, about padding
        whole = pydicom.dcmread(io.BytesIO(data))
        stored = whole.pixel_array.astype(np.float64)
    frames = int(whole.get('NumberOfFrames', 1))
    stored = stored.reshape(frames, *image.shape[:2], -1)
    expected = np.concatenate(list(stored), axis=2)
    expected = expected * float(whole.get('RescaleSlope', 1)) + float(
        whole.get('RescaleIntercept', 0)
    )
    seen = np.isfinite(image)
    assert np.array_equal(image[seen], expected.astype(image.dtype)[seen])
    assert seen.mean() > 0.9
    kind = pixel_kind(data)
    assert (kind.channels, kind.dtype, kind.plain) == (image.shape[2], image.dtype, False)


def test_slope_padding_and_white_above_black():
    stored = np.arange(12, dtype=np.uint16).reshape(3, 4)
    settings = dict(RescaleSlope='2', RescaleIntercept='-1024', PixelPaddingValue=5)
    image = read_dicom(dicom(stored, **settings))[:, :, 0]
    assert np.isnan(image[1, 1])
    assert np.array_equal(np.isnan(image), stored == 5)
    assert image[0, 0] == -1024
    assert image[2, 3] == 2 * 11 - 1024
    inverse = read_dicom(dicom(stored, PhotometricInterpretation='MONOCHROME1'))[:, :, 0]
    assert np.array_equal(inverse, -stored.astype(np.float32))
    overlay = read_dicom(dicom(stored | 0x8000, BitsStored=12))[:, :, 0]
    assert np.array_equal(overlay, stored)
    ranged = read_dicom(dicom(stored, PixelPaddingValue=2, PixelPaddingRangeLimit=0))
    assert np.isnan(ranged).sum() == 3
    colors = content('examples_palette.dcm')
    assert read_dicom(colors).shape == (350, 800, 3)
    assert read_dicom(colors).max() == 65280  # of its table


def test_frames_are_channels_and_a_folder_is_measured(tmp_path):
    frames = np.stack([natural(20, 30)[:, :, i].astype(np.uint16) << 4 for i in range(2)])
    for i in range(3):
        (tmp_path / f'{i}.dcm').write_bytes(dicom(frames))
    image = read_bands(tmp_path / '0.dcm')
    assert image.dtype == np.float32
    assert np.array_equal(image, frames.transpose(1, 2, 0).astype(np.float32))
    found = measure(tmp_path.glob('*.dcm'))
    assert found.bands.channels == 2
    with pytest.raises(BadImageError, match='a DICOM file, which is beyond 8-bit RGB'):
        decode_image(tmp_path / '0.dcm')


def element(group, number, kind, value) -> bytes:
    return struct.pack('<HH2sHI', group, number, kind, 0, len(value)) + value


def test_hostile_files_are_refused():
    stored = np.zeros((8, 8), np.uint16)
    whole = dicom(stored)
    end = whole.index(struct.pack('<HH', 0x7FE0, 0x10))
    head, pixels = whole[:end], whole[end:]
    many = element(0x0009, 0x10, b'OB', b'')
    nested = struct.pack('<HH2sHI', 0x0009, 0x11, b'SQ', 0, 2**32 - 1) + struct.pack(
        '<HHI', 0xFFFE, 0xE000, 2**32 - 1
    )
    packed = content('MR_small_jp2klossless.dcm')
    for data, said in [
        (head + many * 70_000 + pixels, 'more than 21845 elements'),
        (head + nested * 2_000 + pixels, 'too deeply in each other'),
        (content('image_dfl.dcm'), 'deflated as a whole'),
        (whole[:-20], 'less than expected'),
        (whole[:200], 'damaged|without an image'),
        (dicom(stored, Rows=60_000, Columns=60_000), 'pixels are more than'),
        (dicom(stored, NumberOfFrames='2000'), '2000 frames'),
        (
            dicom(stored, Rows=4096, Columns=4096, NumberOfFrames='9'),
            '150994944 values in 9 frames',
        ),
        (dicom(stored, NumberOfFrames='x'), 'without an image'),
        (dicom(stored, RescaleSlope='1e999'), 'a scale of inf|cannot be decoded|damaged'),
        (dicom(stored, SamplesPerPixel=4), '4 values of 16 bit'),
        (packed.replace(b'\xff\x51', b'\xff\x51', 1)[:-4000], 'DICOM'),
        (content('SC_rgb_jpeg_gdcm.dcm'), 'needs a plugin of pydicom'),
        (content('rtplan.dcm'), 'without an image'),
    ]:
        with pytest.raises(ValueError, match=said):
            read_dicom(data)


def test_many_frames_are_no_long_side():
    frames = np.zeros((700, 100, 8), np.uint16)
    assert read_dicom(dicom(frames)).shape == (100, 8, 700)


def test_packed_frames_say_the_size_that_the_header_says():
    """Else somebody would make room for the size that a frame claims."""
    small = encode(natural(8, 8))
    packed = content('SC_rgb_jpeg_dcmtk.dcm')
    dataset = pydicom.dcmread(io.BytesIO(packed))
    dataset.PixelData = pydicom.encaps.encapsulate([small])
    buffer = io.BytesIO()
    dataset.save_as(buffer)
    with pytest.raises(ValueError, match='a frame of 8 x 8 pixels in an image of 100 x 100'):
        read_dicom(buffer.getvalue())
    rle = pydicom.dcmread(io.BytesIO(content('MR_small_RLE.dcm')))
    bomb = struct.pack('<16I', 2, 64, 64, *[0] * 13) + b'\x81\0' * 10_000  # 1.28 MB a plane
    rle.PixelData = pydicom.encaps.encapsulate([bomb])
    buffer = io.BytesIO()
    rle.save_as(buffer)
    with pytest.raises(ValueError, match='cannot be decoded'):
        read_dicom(buffer.getvalue())


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pydicom', None)
    with pytest.raises(ValueError, match=r'pip install "ttl-mm\[dicom\]"'):
        dicom_header(b'\0' * 128 + b'DICM')
    assert module.is_dicom(b'\0' * 128 + b'DICM')
