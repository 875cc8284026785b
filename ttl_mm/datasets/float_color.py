"""The pixel operations of the views for images of any depth: float, 0 to 255, any channels.

They mean the same as those of :mod:`ttl_mm.datasets.color` for 8 bit, without rounding. Those that
mix colors exist for three channels, which are BGR. Each function takes and returns (H, W, C).
"""

import cv2
import numpy as np

from ttl_mm.datasets.color import box_blur_kernel

_GRAY_BGR = np.array([0.114, 0.587, 0.299], np.float32)
COLORS = 3


def adjust_brightness(image: np.ndarray, factor: float) -> np.ndarray:
    """``factor * x``."""
    return image * np.float32(factor)


def adjust_contrast(image: np.ndarray, factor: float) -> np.ndarray:
    """``mean + factor * (x - mean)``; every channel has a mean of its own, colors share one."""
    mean = image.mean(axis=(0, 1))
    if len(mean) == COLORS:
        mean = mean @ _GRAY_BGR
    return mean + np.float32(factor) * (image - mean)


def adjust_saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """``gray + factor * (x - gray)`` with the gray level of each pixel."""
    gray = (image @ _GRAY_BGR)[:, :, None]
    return gray + np.float32(factor) * (image - gray)


def adjust_hue(image: np.ndarray, turn: float) -> np.ndarray:
    """Turn the hue of HSV by ``turn`` of a full circle."""
    hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
    hsv[..., 0] = (hsv[..., 0] + np.float32(360 * turn)) % 360
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)


def to_gray(image: np.ndarray) -> np.ndarray:
    """All three channels become the gray level."""
    return np.repeat((image @ _GRAY_BGR)[:, :, None], COLORS, axis=2)


def gaussian_blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """The blur of 8 bit."""
    kernel = box_blur_kernel(sigma)
    blurred = cv2.sepFilter2D(image, -1, kernel, kernel, borderType=cv2.BORDER_REPLICATE)
    return blurred.reshape(image.shape)  # OpenCV drops a single channel


def solarize(image: np.ndarray, threshold: int) -> np.ndarray:
    """``x`` below the threshold, ``255 - x`` from the threshold on."""
    return np.where(image < threshold, image, 255 - image)


JITTER = {
    'brightness': adjust_brightness,
    'contrast': adjust_contrast,
    'saturation': adjust_saturation,
    'hue': adjust_hue,
}
NEED_COLORS = ('saturation', 'hue')
