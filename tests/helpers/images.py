"""Image files made up for tests, good and bad, in folders too, and two photos."""

import io
import struct
import zlib
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

# 427 x 640 each; sklearn is not imported, which would take long
PHOTOS = Path(find_spec('sklearn').origin).parent / 'datasets/images'
CHINA, FLOWER = PHOTOS / 'china.jpg', PHOTOS / 'flower.jpg'


def natural(height: int = 96, width: int = 128, seed: int = 0) -> np.ndarray:
    """An RGB uint8 image with the 1/f spectrum of natural images, edges and saturated spots."""
    rng = np.random.default_rng(seed)
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    falloff = 1 / np.maximum(np.hypot(fy, fx), 1 / max(height, width))
    noise = rng.standard_normal((4, height, width))
    waves = np.fft.irfft2(np.fft.rfft2(noise) * falloff, (height, width))
    waves = (waves - waves.mean((1, 2), keepdims=True)) / waves.std((1, 2), keepdims=True)
    color = 120 + 35 * waves[:1] + 30 * waves[1:]
    y, x = np.mgrid[:height, :width]
    for _ in range(6):
        cy, cx, r = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(0.05, 0.2) * height
        color[:, np.hypot(y - cy, x - cx) < r] += rng.uniform(-120, 120, (3, 1))
    return np.ascontiguousarray(color.clip(0, 255).round().astype(np.uint8).transpose(1, 2, 0))


def encode(array: np.ndarray, kind: str = 'JPEG', mode: str | None = None, **options) -> bytes:
    """Encode an array with Pillow."""
    image = Image.fromarray(array)
    buffer = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(buffer, kind, **options)
    return buffer.getvalue()


def make_folder(root, classes=('ant', 'bee', 'cat'), count=6, size=40, seed=0, widen=1):
    """``root/CLASS/I.png``: noise around a gray level of the class, ``size + widen * I`` wide."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            noise = rng.integers(0, 90, (size, size + widen * i, 3)) + 60 * number
            cv2.imwrite(str(root / name / f'{i}.png'), noise.astype(np.uint8))
    return root


def write_images(folder: Path, count: int, height: int, width: int, bad=()) -> Path:
    """``folder/I.jpg``; those whose number is in ``bad`` are web pages."""
    folder.mkdir(exist_ok=True)
    for i in range(count):
        content = b'<html>' if i in bad else encode(natural(height, width, seed=i))
        (folder / f'{i}.jpg').write_bytes(content)
    return folder


def png(width: int, height: int, depth: int, color: int, rows: bytes) -> bytes:
    """A PNG of any type of color, which Pillow cannot write."""
    header = struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, 0)
    data = b'\x89PNG\r\n\x1a\n'
    for chunk in (b'IHDR' + header, b'IDAT' + zlib.compress(rows), b'IEND'):
        data += struct.pack('>I', len(chunk) - 4) + chunk + struct.pack('>I', zlib.crc32(chunk))
    return data


def bad_files() -> dict[str, tuple[bytes, str]]:
    """Files that are no usable images, and a part of the reason that is given for each."""
    image = natural()
    jpeg, good, tiff = (encode(image, kind) for kind in ('JPEG', 'PNG', 'TIFF'))
    rows = b''.join(b'\0' + bytes(21) for _ in range(5))
    sof = jpeg.index(b'\xff\xc0')
    no_size = jpeg[: sof + 5] + bytes(4) + jpeg[sof + 9 :]
    with_thumbnail = encode(image, exif=b'Exif\0\0' + jpeg)
    flipped_bit = good[:80] + bytes([good[80] ^ 1]) + good[81:]
    return {
        'empty': (b'', 'empty'),
        'html': (b'<!DOCTYPE html><html>404</html>', "starts with b'<!DOCTYPE html"),
        'text': (b'a.jpg\nb.jpg\n', 'not a known image'),
        'zeros': (bytes(4096), 'not a known image'),
        'zip': (b'PK\x03\x04' + bytes(100), 'not a known image'),
        'eps': (b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n', 'not a known image'),
        'jpeg cut in half': (jpeg[: len(jpeg) // 2], 'truncated JPEG: no end marker'),
        'jpeg cut by one byte': (jpeg[:-1], 'truncated JPEG: no end marker'),
        'jpeg zero-padded': (jpeg[:-200] + bytes(200), 'truncated JPEG: no end marker'),
        'jpeg cut after its thumbnail': (with_thumbnail[:-99], 'truncated JPEG: no end marker'),
        'jpeg cut in its header': (jpeg[:50], 'truncated or broken JPEG header'),
        'jpeg marker only': (jpeg[:2], 'truncated or broken JPEG header'),
        'jpeg of size 0': (no_size, 'truncated or broken JPEG header'),
        'jpeg without tables': (jpeg[:2] + jpeg[sof:], 'broken or unsupported JPEG'),
        'png cut in half': (good[: len(good) // 2], 'cannot be decoded'),
        'png signature only': (good[:8], 'not a known image'),
        'png with a broken checksum': (flipped_bit, 'cannot be decoded'),
        'png bomb': (png(10000, 10000, 8, 0, rows), 'more than max_pixels'),
        'png giant bomb': (png(2**31 - 1, 2**31 - 1, 8, 0, rows), 'pixels'),
        'float tiff': (encode(np.ones((4, 4), np.float32), 'TIFF'), 'floating-point'),
        '32-bit tiff': (encode(np.full((4, 4), 70000, np.int32), 'TIFF'), '70000..70000'),
        'gif cut in half': (encode(image, 'GIF')[:5000], 'cannot be decoded'),
        'webp cut in half': (encode(image, 'WEBP')[:400], 'cannot be decoded'),
        'tiff cut in half': (tiff[:20000], 'cannot be decoded'),
    }


def dicom(stored: np.ndarray, **settings) -> bytes:
    """A DICOM file with (H, W) or (frames, H, W) values of 16 bit, as a scanner writes it.

    ``settings`` are elements by their names, also those that no scanner would write.
    """
    import pydicom

    dataset, bits = pydicom.Dataset(), settings.get('BitsStored', 16)
    dataset.preamble = bytes(128)
    dataset.file_meta = pydicom.dataset.FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    elements = {
        'SamplesPerPixel': 1, 'PhotometricInterpretation': 'MONOCHROME2', 'Rows': stored.shape[-2],
        'Columns': stored.shape[-1], 'BitsAllocated': 16, 'BitsStored': bits, 'HighBit': bits - 1,
        'PixelRepresentation': 0, 'NumberOfFrames': str(len(stored) if stored.ndim == 3 else 1),
        **settings,
    }  # fmt: skip
    for name, value in elements.items():
        tag = pydicom.datadict.tag_for_keyword(name)
        kind = pydicom.datadict.dictionary_VR(tag).replace('US or SS', 'US')
        if isinstance(value, str):  # also one that is no number
            kind = 'LO'
        dataset.add(pydicom.DataElement(tag, kind, value))
    dataset.add(pydicom.DataElement('PixelData', 'OW', stored.astype('<u2').tobytes()))
    buffer = io.BytesIO()
    dataset.save_as(buffer, enforce_file_format=False)
    return buffer.getvalue()
