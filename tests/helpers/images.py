"""Image files made up for tests."""

import io

import numpy as np
from PIL import Image


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
