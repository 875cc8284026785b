"""Each operation against Pillow, through the stock pipeline's own functions where it has one."""

from collections.abc import Iterable

import mmcv
import numpy as np
import pytest
from PIL import Image, ImageFilter, ImageOps

from tests.helpers.images import CHINA, FLOWER
from ttl_mm.datasets import color
from ttl_mm.datasets.decode import decode_image

PHOTOS = [decode_image(path) for path in (CHINA, FLOWER)]


def differences(ours: Iterable, theirs: Iterable) -> np.ndarray:
    pairs = zip(ours, theirs, strict=True)
    return np.concatenate([np.abs(one.astype(int) - other).ravel() for one, other in pairs])


def assert_matches(ours: list, theirs: list, mean: float, percentile_99: float) -> None:
    difference = differences(ours, theirs)
    assert difference.mean() <= mean
    assert np.percentile(difference, 99) <= percentile_99


# the stock function, factors, and how far from it the mean and the 99th percentile may be
JITTER = {
    'brightness': (mmcv.adjust_brightness, [0.0, 0.6, 0.83, 1.0, 1.17, 1.4], 0.01, 0),
    # the mean gray level is a whole number, which may fall on the other side of a half
    'contrast': (mmcv.adjust_contrast, [0.0, 0.6, 0.83, 1.0, 1.17, 1.4], 0.5, 1),
    'saturation': (mmcv.adjust_color, [0.0, 0.8, 0.93, 1.0, 1.07, 1.2], 0.5, 1),
    'hue': (mmcv.adjust_hue, [-0.5, -0.1, -0.03, 0.0, 0.03, 0.1, 0.5], 0.5, 6),
}


@pytest.mark.parametrize('name', JITTER)
def test_jitter(name):
    stock, factors, *bounds = JITTER[name]
    before = PHOTOS[0].copy()
    for factor in factors:
        ours = [color.JITTER[name](photo, factor) for photo in PHOTOS]
        theirs = [stock(photo, factor, backend='pillow') for photo in PHOTOS]
        assert_matches(ours, theirs, *bounds)
    np.testing.assert_array_equal(PHOTOS[0], before)  # operations leave their input alone


def test_blur():
    for sigma in (0.1, 0.3, 0.5, 0.8, 1.0, 1.41, 1.42, 1.7, 2.0, 5.0):
        ours = [color.gaussian_blur(photo, sigma) for photo in PHOTOS]
        pillow = ImageFilter.GaussianBlur(sigma)
        theirs = [Image.fromarray(photo).filter(pillow) for photo in PHOTOS]
        assert_matches(ours, theirs, mean=0.6, percentile_99=3)


def test_blur_has_the_variance_of_the_gaussian_also_on_grayscale():
    for sigma in (0.1, 0.7, 1.4, 1.5, 2.0, 3.0, 7.0):
        kernel = color.box_blur_kernel(sigma)
        offsets = np.arange(len(kernel)) - len(kernel) // 2
        assert kernel.sum() == pytest.approx(1)
        assert np.sqrt(kernel @ offsets**2) == pytest.approx(sigma, rel=0.05, abs=0.05)
        np.testing.assert_array_equal(kernel, kernel[::-1])
    gray = color.to_gray(PHOTOS[0])
    blurred = color.gaussian_blur(np.repeat(gray[..., None], 3, axis=2), 1.3)
    np.testing.assert_array_equal(color.gaussian_blur(gray, 1.3), blurred[..., 0])


def test_solarize_and_gray():
    for threshold in (0, 100, 128, 256):
        for image in PHOTOS:
            pillow = ImageOps.solarize(Image.fromarray(image), threshold)
            np.testing.assert_array_equal(color.solarize(image, threshold), pillow)
    theirs = [Image.fromarray(photo[..., ::-1]).convert('L') for photo in PHOTOS]
    assert differences(map(color.to_gray, PHOTOS), theirs).max() <= 1
