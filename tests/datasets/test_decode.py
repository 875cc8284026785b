import io
import pickle
import struct
from itertools import product

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.helpers.bad_image import read_bad_image_in_worker
from tests.helpers.images import bad_files, encode, natural, png
from ttl_mm.datasets import BadImageError, LoadImage, decode_image
from ttl_mm.datasets.decode import exif_orientation, open_image
from ttl_mm.errors import UserError

IMAGE = natural()


def pillow_bgr(data: bytes) -> np.ndarray:
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert('RGB')
    return np.asarray(image)[..., ::-1]


def test_formats_equal_pillow():
    files = [encode(IMAGE, 'JPEG', mode) for mode in ('RGB', 'L')]
    files += [encode(IMAGE, 'JPEG', progressive=True, subsampling=0)]
    files += [encode(IMAGE, 'PNG', mode) for mode in ('RGB', 'RGBA', 'LA', 'P', '1')]
    files += [encode(IMAGE, kind) for kind in ('WEBP', 'BMP', 'TIFF', 'PPM')]
    files += [encode(IMAGE, 'GIF', 'P'), encode(IMAGE, 'TIFF', 'CMYK')]
    for data in files:
        decoded = decode_image(data)
        assert decoded.dtype == np.uint8
        np.testing.assert_array_equal(decoded, pillow_bgr(data))
    cmyk = encode(IMAGE, 'JPEG', 'CMYK')  # OpenCV rounds it differently
    np.testing.assert_allclose(decode_image(cmyk).astype(int), pillow_bgr(cmyk), rtol=0, atol=1)
    data = encode(IMAGE)  # stray and fill bytes between segments are skipped
    strayed = data[:20] + b'\0\0\xff\0\xff\xff' + data[20:]  # after JFIF's segment
    np.testing.assert_array_equal(decode_image(strayed), decode_image(data))


def test_exif_orientation_is_applied_and_upright_where_broken():
    for kind, orientation in product(['JPEG', 'PNG', 'TIFF'], range(1, 9)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = encode(IMAGE, kind, exif=exif)
        file = open_image(data)
        decoded = file.decode(1)
        np.testing.assert_array_equal(decoded, pillow_bgr(data))
        assert (file.height, file.width) == decoded.shape[:2]
    entry = struct.pack('<HIHHHIHH', 42, 8, 1, 0x0112, 3, 1, 6, 0)
    assert exif_orientation(b'Exif\0\0II' + entry) == 6
    wrong = entry.replace(b'\6\0', b'\x09\0')
    for block in (b'', b'XX', b'Exif\0\0II' + wrong, (b'Exif\0\0II' + entry)[:21]):
        assert exif_orientation(block) == 1


def test_16_bit_keeps_the_high_byte():
    for color, channels in [(0, 1), (4, 2), (2, 3), (6, 4)]:  # PNG's color types
        values = np.random.default_rng(0).integers(0, 65536, (5, 7, channels))
        rows = b''.join(b'\0' + row.astype('>u2').tobytes() for row in values)
        high = values[..., : 3 if channels > 2 else 1] >> 8
        expected = np.broadcast_to(high[..., ::-1], (5, 7, 3))
        np.testing.assert_array_equal(decode_image(png(7, 5, 16, color, rows)), expected)
    values = np.arange(0, 65536, 512, dtype=np.uint16).reshape(8, 16)
    expected = np.repeat((values >> 8)[..., None], 3, axis=2)
    np.testing.assert_array_equal(decode_image(encode(values, 'TIFF')), expected)


def test_bad_unreadable_and_too_large_files_are_named_errors(tmp_path):
    path = tmp_path / 'bad.jpg'
    for kind, (data, reason) in bad_files().items():
        path.write_bytes(data)
        with pytest.raises(BadImageError) as caught:
            decode_image(path)
        assert caught.value.path == str(path)
        assert reason in caught.value.reason, kind
    huge = tmp_path / 'huge.png'
    with huge.open('wb') as file:
        file.truncate(2**40)
    wrong = {tmp_path / 'no.jpg': 'cannot be read', tmp_path: 'cannot be read'}
    for path, reason in (wrong | {huge: f'{2**40} bytes'}).items():
        with pytest.raises(BadImageError, match=reason):
            decode_image(path)
    data = encode(IMAGE)
    pixels = IMAGE.shape[0] * IMAGE.shape[1]
    decode_image(data, max_pixels=pixels)
    refused = f'128 x 96 pixels are more than max_pixels={pixels - 1}'
    with pytest.raises(BadImageError, match=refused):
        decode_image(data, max_pixels=pixels - 1)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, insert, delete or cut a few bytes, mostly near the beginning."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        place = rng.integers(len(data) if rng.random() < 0.3 else min(len(data), 400))
        some = rng.integers(0, 256, rng.integers(1, 9), dtype=np.uint8).tobytes()
        removed = [len(some), 0, 1, len(data)][rng.integers(4)]
        data[place : place + removed] = some
    return bytes(data)


@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'GIF', 'BMP', 'TIFF', 'WEBP', 'PPM'])
def test_damaged_files_are_images_or_named_errors(kind):
    data = encode(natural(40, 50), kind)
    rng = np.random.default_rng(0)
    bad = 0
    for _ in range(60):
        try:
            image = decode_image(damaged(data, rng))
        except BadImageError:
            bad += 1
        else:
            assert (image.dtype, image.shape[2]) == (np.uint8, 3)
    assert bad > 0


def test_extreme_shapes_and_reduced_decoding_equal_pillow():
    data = encode(natural(400, 600))
    for divisor in (1, 2, 4, 8):
        draft = Image.open(io.BytesIO(data))
        draft.draft('RGB', (600 // divisor, 400 // divisor))
        assert draft.size == (600 // divisor, 400 // divisor)
        reduced = open_image(data).decode(divisor)
        np.testing.assert_array_equal(reduced, np.asarray(draft)[..., ::-1])
    for size in [(1, 1), (1, 10000), (10000, 1), (8, 8)]:
        image = np.full((*size, 3), 77, np.uint8)
        for kind in ('JPEG', 'PNG'):
            np.testing.assert_array_equal(decode_image(encode(image, kind)), image)


def test_an_image_in_memory_is_not_loaded():
    results = LoadImage()({'img': IMAGE})
    assert results['img'] is IMAGE
    assert results['img_shape'] == results['ori_shape'] == (96, 128)


def test_errors_survive_pickling_and_workers():
    error = pickle.loads(pickle.dumps(BadImageError('a.jpg', 'empty file')))
    assert (error.path, error.reason, str(error)) == ('a.jpg', 'empty file', 'a.jpg: empty file')
    with pytest.raises(UserError, match='not a known image'):
        read_bad_image_in_worker()
