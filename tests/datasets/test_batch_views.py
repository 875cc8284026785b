"""Views of a whole batch against one image after another, step by step."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage, stats

from ttl_mm.datasets import float_color
from ttl_mm.datasets.batch_views import (
    NUMBERS,
    Draws,
    draw_batch,
    hue_matrices,
    render_batch,
    resize_matrices,
)
from ttl_mm.datasets.view_params import View, draw_view

EDGE = 32
PLAIN = dict(flip=0.0, jitter=0.0, grayscale=0.0, blur=0.0)


def uniform(n, seed=0):
    return np.random.default_rng(seed).random((n, NUMBERS))


def images(n, low=70, high=130, seed=0):
    """Levels that brightness and contrast do not push out of 0 to 255."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(low, high, (n, 3, EDGE, EDGE), dtype=np.uint8))


def crop_by_torch(image, box, size):
    top, left, h, w = (round(float(x) * EDGE) for x in box)
    crop = image[None, :, top : top + h, left : left + w].float()
    return F.interpolate(crop, size=size, mode='bicubic', antialias=True)[0]


@pytest.mark.parametrize('length', [4, 9, 24, 30])
def test_crop_and_resize_of_a_row_are_torchs(length):
    row = torch.rand(1, 1, 1, EDGE)
    (matrix,) = resize_matrices(torch.tensor([2.0]), torch.tensor([float(length)]), 12, EDGE)
    crop = row[..., 2 : 2 + length]
    expected = F.interpolate(crop, size=(1, 12), mode='bicubic', antialias=True)
    assert torch.allclose(matrix @ row[0, 0, 0], expected[0, 0, 0], atol=1e-6)


def one_by_one(image, view, draws, i):
    """The view of image i: crop, flip, colors in their order, gray, blur, solarize."""
    found = crop_by_torch(image, draws.boxes[i], view.size).permute(1, 2, 0).numpy()
    if draws.flip[i]:
        found = found[:, ::-1]
    for place in draws.order[i]:
        name, factor = list(float_color.JITTER)[place], np.float32(draws.factors[i, place])
        if name == 'hue':
            found = found @ hue_matrices(torch.tensor([factor]))[0].numpy().T
        else:
            found = float_color.JITTER[name](found, factor)
    if draws.gray[i]:
        found = float_color.to_gray(found)
    if draws.sigma[i]:
        size = found.shape[:2]
        weights = [
            ndimage.gaussian_filter1d(np.eye(s), draws.sigma[i], 0, mode='constant', truncate=20)
            for s in size
        ]
        rows, columns = (w / w.sum(1, keepdims=True) for w in weights)
        found = np.einsum('ij,kl,jlc->ikc', rows, columns, found)
    if draws.solarize[i]:
        found = float_color.solarize(found, view.threshold)
    return found


def test_views_of_a_batch_are_those_of_one_image_after_another():
    n, view = 12, View(size=(20, 24), jitter=0.7, blur=0.5, solarize=0.3, threshold=100)
    draws = draw_batch(view, np.full(n, EDGE), np.full(n, EDGE), uniform(n))
    whole = np.round(draws.boxes * EDGE) / EDGE  # torch crops whole pixels
    draws = draws._replace(boxes=np.maximum(whole, 1 / EDGE))
    batch = images(n)
    found = render_batch(batch, view, draws).permute(0, 2, 3, 1).numpy()
    for i in range(n):
        expected = one_by_one(batch[i], view, draws, i)
        level = np.abs(expected - view.threshold).min(axis=-1) > 0.1  # rounding decides there
        np.testing.assert_allclose(found[i][level], expected[level], atol=0.02)


def test_a_turned_hue_keeps_the_luma_and_a_whole_turn_the_color():
    matrices = hue_matrices(torch.tensor([0.1, 1.0]))
    colors = torch.rand(3, 50)
    gray = torch.tensor([0.114, 0.587, 0.299])
    assert torch.allclose(gray @ matrices[0] @ colors, gray @ colors, atol=1e-3)
    assert not torch.allclose(matrices[0] @ colors, colors, atol=0.05)
    assert torch.allclose(matrices[1] @ colors, colors, atol=1e-4)


def test_draws_have_the_distribution_of_single_views():
    n, view = 2000, View(size=24, area=(0.2, 1.0), blur=0.3, solarize=0.2)
    height, width = 60, 90
    draws = draw_batch(view, np.full(n, height), np.full(n, width), uniform(n))
    top, left, h, w = draws.boxes.T
    assert min(top.min(), left.min()) >= 0
    assert max((top + h).max(), (left + w).max()) <= 1 + 1e-9
    rng = np.random.default_rng(1)
    single = [draw_view(view, height, width, rng) for _ in range(n)]
    boxes = np.array([one.box for one in single]) / [height, width, height, width]
    noise = rng.uniform(-0.5, 0.5, (4, n)) / np.array([height, width, height, width])[:, None]
    for ours, theirs, jump in zip(draws.boxes.T, boxes.T, noise):  # theirs are whole pixels
        assert stats.ks_2samp(ours, np.abs(theirs + jump)).statistic < 0.06
    hues = [dict(one.jitter).get('hue', 0.0) for one in single]
    assert stats.ks_2samp(draws.factors[:, 3], hues).statistic < 0.06
    for ours, theirs in (
        (draws.flip, [one.flip for one in single]),
        (draws.gray, [one.grayscale for one in single]),
        (draws.sigma > 0, [one.sigma is not None for one in single]),
        (draws.solarize, [one.threshold is not None for one in single]),
    ):
        assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=0.05)
    first = np.bincount(draws.order[:, 0], minlength=4) / n
    assert np.allclose(first, 0.25, atol=0.05)


def test_a_box_that_never_fits_is_the_largest_in_the_middle():
    view = View(size=8, area=(1.0, 1.0), ratio=(1.0, 1.0))
    draws = draw_batch(view, np.array([20]), np.array([40]), uniform(1))
    np.testing.assert_allclose(draws.boxes, [[0.0, 0.25, 1.0, 0.5]])


def test_a_view_does_not_depend_on_its_batch():
    n, view = 6, View(size=16, blur=0.5, solarize=0.5)
    sizes, numbers, batch = np.full(n, 40), uniform(n), images(n)
    whole = render_batch(batch, view, draw_batch(view, sizes, sizes, numbers))
    for rows in ([0, 1, 2], [4], [5, 3]):
        draws = draw_batch(view, sizes[rows], sizes[rows], numbers[rows])
        assert torch.allclose(render_batch(batch[rows], view, draws), whole[rows], atol=1e-3)


def test_a_view_without_any_change_is_the_image():
    view = View(size=EDGE, area=(1.0, 1.0), ratio=(1.0, 1.0), **PLAIN)
    draws = draw_batch(view, np.full(2, 50), np.full(2, 50), uniform(2))
    assert isinstance(draws, Draws)
    batch = images(2, 0, 256)
    assert torch.allclose(render_batch(batch, view, draws), batch.float(), atol=1e-3)
