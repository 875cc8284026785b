import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import pytest
from mmengine.registry import init_default_scope

from tests.helpers.images import encode, natural
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.view_sheet import fit, tile, view_sheet, views_of


@pytest.fixture
def folder(tmp_path):
    for i in range(5):
        (tmp_path / f'{i}.png').write_bytes(encode(natural(40, 50, seed=i), 'PNG'))
    init_default_scope('mmpretrain')
    plain = dict(flip=0, jitter=0, grayscale=0, blur=0)
    views = [dict(size=40, **plain), dict(size=20, **plain)]
    return ImageFolder(
        str(tmp_path), [dict(type='ttl_mm.RandomViews', views=views), dict(type='PackInputs')]
    )


def test_the_sheet_shows_the_views_of_training(folder):
    sheet = view_sheet(folder, images=2, epochs=1, seed=7, height=40)
    large, small = views_of(folder, SampleIndex(0, epoch=0, seed=7))
    assert large.shape == (40, 40, 3)
    assert small.shape == (20, 20, 3)
    for view in (large, small):
        patches = np.lib.stride_tricks.sliding_window_view(sheet, view.shape)[:, :, 0]
        assert (patches == view).all(axis=(2, 3, 4)).any()


def test_rgb_views_are_turned_for_the_sheet(folder):
    index = SampleIndex(0)
    np.testing.assert_array_equal(
        views_of(folder, index, rgb=True)[0], views_of(folder, index)[0][..., ::-1]
    )


def test_rows_never_outnumber_the_images(folder):
    few, many = (view_sheet(folder, images, epochs=1, height=40) for images in (5, 50))
    assert few.shape == many.shape


def test_fit_keeps_the_shape_of_an_image():
    image = np.zeros((100, 300, 3), np.uint8)
    assert fit(image, 50).shape == (50, 150, 3)
    assert fit(image, 50, max_width=75).shape == (25, 75, 3)


def test_tiles_do_not_overlap():
    rows = [[np.full((10, width, 3), width, np.uint8) for width in (90, 30)] for _ in range(2)]
    sheet = tile(rows, ['a', 'b'], height=10)
    assert (sheet == 90).all(axis=2).sum() == 2 * 10 * 90
    assert (sheet == 30).all(axis=2).sum() == 2 * 10 * 30
