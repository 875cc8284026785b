"""Each operation against Pillow, through the stock pipeline's own functions where it has one."""

from pathlib import Path

import mmcv
import numpy as np
import pytest
import sklearn.datasets
from PIL import Image, ImageFilter, ImageOps

from ttl_mm.datasets import color as colour
from ttl_mm.datasets.decode import decode_image

PHOTOS = [
    decode_image(path)
    for path in sorted((Path(sklearn.datasets.__file__).parent / 'images').glob('*.jpg'))
]


def differences(ours, theirs) -> np.ndarray:
    assert len(PHOTOS) == 2
    return np.concatenate([np.abs(ours(x).astype(int) - theirs(x)).ravel() for x in PHOTOS])


def assert_matches(ours, theirs, mean: float, percentile_99: float) -> None:
    difference = differences(ours, theirs)
    assert difference.mean() <= mean
    assert np.percentile(difference, 99) <= percentile_99


# the stock function, factors, and how far from it the mean and the 99th percentile may be
JITTER = {
    'brightness': (mmcv.adjust_brightness, [0.0, 0.6, 0.83, 1.0, 1.17, 1.4], 0.01, 0),
    # the mean grey level is a whole number, which may fall on the other side of a half
    'contrast': (mmcv.adjust_contrast, [0.0, 0.6, 0.83, 1.0, 1.17, 1.4], 0.5, 1),
    'saturation': (mmcv.adjust_color, [0.0, 0.8, 0.93, 1.0, 1.07, 1.2], 0.5, 1),
    'hue': (mmcv.adjust_hue, [-0.5, -0.1, -0.03, 0.0, 0.03, 0.1, 0.5], 0.5, 6),
}


@pytest.mark.parametrize(
    ('name', 'factor'), [(name, factor) for name in JITTER for factor in JITTER[name][1]]
)
def test_jitter(name, factor):
    stock, _, mean, percentile_99 = JITTER[name]
    assert_matches(
        lambda x: colour.JITTER[name](x, factor),
        lambda x: stock(x, factor, backend='pillow'),
        mean,
        percentile_99,
    )


@pytest.mark.parametrize('sigma', [0.1, 0.3, 0.5, 0.8, 1.0, 1.41, 1.42, 1.7, 2.0, 5.0])
def test_blur(sigma):
    assert_matches(
        lambda x: colour.gaussian_blur(x, sigma),
        lambda x: np.asarray(Image.fromarray(x).filter(ImageFilter.GaussianBlur(sigma))),
        mean=0.6,
        percentile_99=3,
    )


@pytest.mark.parametrize('sigma', [0.1, 0.7, 1.4, 1.5, 2.0, 3.0, 7.0])
def test_blur_kernel_has_the_variance_of_the_gaussian(sigma):
    kernel = colour.box_blur_kernel(sigma)
    offsets = np.arange(len(kernel)) - len(kernel) // 2
    assert kernel.sum() == pytest.approx(1)
    assert np.sqrt(kernel @ offsets**2) == pytest.approx(sigma, rel=0.05, abs=0.05)
    np.testing.assert_array_equal(kernel, kernel[::-1])


def test_blur_of_greyscale_is_that_of_each_channel():
    grey = colour.to_grey(PHOTOS[0])
    blurred = colour.gaussian_blur(np.repeat(grey[..., None], 3, axis=2), 1.3)
    np.testing.assert_array_equal(colour.gaussian_blur(grey, 1.3), blurred[..., 0])


@pytest.mark.parametrize('threshold', [0, 100, 128, 256])
def test_solarize(threshold):
    assert_matches(
        lambda x: colour.solarize(x, threshold),
        lambda x: np.asarray(ImageOps.solarize(Image.fromarray(x), threshold)),
        mean=0,
        percentile_99=0,
    )


def test_grey():
    difference = differences(
        colour.to_grey, lambda x: np.asarray(Image.fromarray(x[..., ::-1]).convert('L'))
    )
    assert difference.max() <= 1


@pytest.mark.parametrize('name', colour.JITTER)
def test_operations_leave_their_input_alone(name):
    before = PHOTOS[0].copy()
    colour.JITTER[name](PHOTOS[0], 0.3)
    np.testing.assert_array_equal(PHOTOS[0], before)
