"""The pixel operations of the views: defined as in Pillow, computed by OpenCV.

Images are uint8 BGR (H, W, 3); blur and solarize take grayscale (H, W) too. Each function returns
a new array. docs/benchmarks.md lists the measured differences from Pillow.
"""

import math

import cv2
import numpy as np

# Pillow truncates where OpenCV rounds. Slightly less than a half keeps whole numbers unchanged.
_TRUNCATE = -0.498
_GRAY_BGR = np.array([0.114, 0.587, 0.299])


def adjust_brightness(image: np.ndarray, factor: float) -> np.ndarray:
    """``factor * x``."""
    return cv2.addWeighted(image, factor, image, 0, _TRUNCATE)


def adjust_contrast(image: np.ndarray, factor: float) -> np.ndarray:
    """``mean + factor * (x - mean)``, where ``mean`` is the rounded mean gray level."""
    mean = int(cv2.mean(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))[0] + 0.5)
    return cv2.addWeighted(image, factor, image, 0, (1 - factor) * mean + _TRUNCATE)


def adjust_saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """``gray + factor * (x - gray)`` with the gray level of each pixel."""
    matrix = np.empty((3, 4))
    matrix[:, :3] = (1 - factor) * _GRAY_BGR + factor * np.eye(3)
    matrix[:, 3] = _TRUNCATE
    return cv2.transform(image, matrix)


def adjust_hue(image: np.ndarray, turn: float) -> np.ndarray:
    """Turn the hue of HSV by ``turn`` of a full circle, in whole steps of 1/255 as in Pillow."""
    hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV_FULL)
    hsv[..., 0] += np.uint8(int(turn * 255) % 256)  # wraps around
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR_FULL)


def gaussian_blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """Blur as Pillow does: by three box filters that together have the variance of a Gaussian."""
    kernel = box_blur_kernel(sigma)
    return cv2.sepFilter2D(image, -1, kernel, kernel, borderType=cv2.BORDER_REPLICATE)


def box_blur_kernel(sigma: float) -> np.ndarray:
    """One filter in place of three equal box filters, with the variance of a Gaussian.

    A box of ``2 l + 1`` ones with weights ``a < 1`` added at both ends has the variance
    ``(l (l + 1) (2 l + 1) / 3 + 2 a (l + 1)^2) / (2 l + 1 + 2 a)``; the variances of the three
    add up, and ``end`` below is the solution for ``a``.
    """
    variance = sigma**2 / 3
    whole = math.floor((math.sqrt(12 * variance + 1) - 1) / 2)  # l
    ones = 2 * whole + 1
    end = ones * (whole * (whole + 1) / 3 - variance) / (2 * (variance - (whole + 1) ** 2))
    box = np.concatenate([[end], np.ones(ones), [end]]) / (ones + 2 * end)
    kernel = np.convolve(np.convolve(box, box), box)
    while kernel[0] < 1 / 512:  # changes no pixel by more than half a level
        kernel = kernel[1:-1]
    kernel = kernel + kernel[::-1]  # OpenCV is fast only if the symmetry is exact
    return kernel / kernel.sum()


def solarize(image: np.ndarray, threshold: int) -> np.ndarray:
    """``x`` below the threshold, ``255 - x`` from the threshold on."""
    levels = np.arange(256, dtype=np.uint8)
    return cv2.LUT(image, np.where(levels < threshold, levels, 255 - levels))


def to_gray(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) to (H, W)."""
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)


JITTER = {
    'brightness': adjust_brightness,
    'contrast': adjust_contrast,
    'saturation': adjust_saturation,
    'hue': adjust_hue,
}
