"""The distributions of the draws against those of mmpretrain's transforms, 20,000 draws each."""

import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import pytest
from mmpretrain.datasets.transforms import ColorJitter, GaussianBlur, RandomResizedCrop
from scipy import stats

from ttl_mm.datasets.view_params import View, ViewParams, draw_box, draw_jitter, draw_view
from ttl_mm.errors import UserError

DRAWS = 20_000
ALPHA = 1e-3  # of each test; the seeds are fixed


def box_facts(boxes: list[tuple], height: int, width: int) -> dict[str, np.ndarray]:
    top, left, h, w = np.transpose(boxes)
    shares = {'top': top / (height - h + 1), 'left': left / (width - w + 1)}
    return {'area': h * w / (height * width), 'ratio': w / h, **shares}


@pytest.mark.parametrize(('height', 'width'), [(375, 500), (300, 1000), (32, 32)])
def test_crops_follow_the_stock_distribution(height, width):
    rng = np.random.default_rng(0)
    ours = [draw_box(View(), height, width, rng) for _ in range(DRAWS)]
    np.random.seed(0)
    crop, image = RandomResizedCrop(224), np.empty((height, width, 3), np.uint8)
    stock = box_facts([crop.rand_crop_params(image) for _ in range(DRAWS)], height, width)
    for fact, values in box_facts(ours, height, width).items():
        assert stats.ks_2samp(values, stock[fact]).pvalue > ALPHA, fact


def test_factors_their_order_and_sigma_follow_the_stock_distribution():
    rng = np.random.default_rng(1)
    ours = [draw_jitter(View(), rng) for _ in range(DRAWS)]
    np.random.seed(1)
    jitter = ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)
    stock = [jitter._rand_params() for _ in range(DRAWS)]
    for position, name in enumerate(['brightness', 'contrast', 'saturation', 'hue'], 1):
        factors = [dict(draw)[name] for draw in ours]
        assert stats.ks_2samp(factors, [draw[position] for draw in stock]).pvalue > ALPHA, name
    orders = [tuple(name for name, _ in draw) for draw in ours]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > ALPHA
    rng = np.random.default_rng(2)
    ours = [draw_view(View(), 32, 32, rng).sigma for _ in range(DRAWS)]
    np.random.seed(2)
    blur = GaussianBlur(magnitude_range=(0.1, 2.0), magnitude_std='inf', prob=1.0)
    stock = [blur.random_magnitude() for _ in range(DRAWS)]
    assert stats.ks_2samp(ours, stock).pvalue > ALPHA


def test_every_operation_has_its_probability_and_0_and_1_are_certain():
    view = View(flip=0.5, jitter=0.8, grayscale=0.2, blur=0.1, solarize=0.3)
    rng = np.random.default_rng(3)
    draws = [draw_view(view, 32, 32, rng) for _ in range(DRAWS)]
    counts = np.sum([applied(draw) for draw in draws], axis=0).tolist()
    for count, name in zip(counts, ('flip', 'jitter', 'grayscale', 'blur', 'solarize')):
        assert stats.binomtest(count, DRAWS, getattr(view, name)).pvalue > ALPHA, name
    rng = np.random.default_rng(4)
    for p in (0, 1):
        view = View(flip=p, jitter=p, grayscale=p, blur=p, solarize=p)
        assert all(applied(draw_view(view, 8, 8, rng)) == [bool(p)] * 5 for _ in range(200))


def applied(draw: ViewParams) -> list[bool]:
    return list(map(bool, [draw.flip, draw.jitter, draw.grayscale, draw.sigma, draw.threshold]))


def test_the_size_of_a_view_follows_the_epoch_and_its_blur_follows_the_size():
    view = View(size=96, later_sizes=[(2, 160), (5, (224, 200))], sigma=(0.5, 2.0))
    sizes = [view.at(epoch).size for epoch in range(7)]
    assert sizes == [(96, 96)] * 2 + [(160, 160)] * 3 + [(224, 200)] * 2
    assert view.at(5).sigma == (0.5, 2.0)
    assert view.at(0).sigma == pytest.approx((0.5 * 96 / 224, 2.0 * 96 / 224))
    draws = [draw_view(view.at(epoch), 300, 400, np.random.default_rng(0)) for epoch in (0, 6)]
    assert draws[0].box == draws[1].box  # the same part of the image
    assert draws[0].sigma / draws[1].sigma == pytest.approx(96 / 224)
    plain = View()
    assert plain.at(7) is plain
    for later in ([(0, 32)], [(3, 32), (3, 64)], [(2, 0)]):
        with pytest.raises(UserError, match='later_sizes'):
            View(size=16, later_sizes=later)


def test_factors_without_range_are_left_out_and_none_is_negative():
    rng = np.random.default_rng(5)
    draws = draw_jitter(View(brightness=0, hue=0), rng)
    assert sorted(name for name, _ in draws) == ['contrast', 'saturation']
    factors = [dict(draw_jitter(View(contrast=3.0), rng))['contrast'] for _ in range(1000)]
    assert min(factors) >= 0


def test_boxes_of_extreme_shapes_lie_inside_and_the_fallback_is_central():
    rng = np.random.default_rng(7)
    for shape in 100 * [(1, 1), (1, 10_000), (10_000, 1), (2, 3)]:
        top, left, h, w = draw_box(View(), *shape, rng)
        assert 0 <= top < top + h <= shape[0]
        assert 0 <= left < left + w <= shape[1]
    stock = RandomResizedCrop(224, max_attempts=0)
    for shape, box in {(100, 900): (0, 383, 100, 133), (900, 100): (383, 0, 133, 100)}.items():
        assert draw_box(View(), *shape, np.random.default_rng(0), attempts=0) == box
        assert stock.rand_crop_params(np.empty((*shape, 3))) == box


def test_the_paper_is_the_default_and_wrong_settings_are_refused():
    wrong = [
        *({'size': (0, 0)}, {'size': (1, 2, 3)}, {'num': 0}, {'area': (0.5, 0.2)}),
        *({'area': (0.5, 1.2)}, {'ratio': (0, 1)}, {'sigma': (0, 1)}, {'hue': 0.6}),
        *({'flip': 1.5}, {'blur': -0.1}, {'contrast': -1}, {'threshold': 300}),
    ]
    for setting in wrong:
        ((name, value),) = setting.items()
        with pytest.raises(UserError) as caught:
            View(**setting)
        assert f'{name}={value}' in str(caught.value)
    view = View()
    assert view.size == (224, 224)
    assert (view.jitter, view.brightness, view.contrast) == (0.8, 0.4, 0.4)
    assert (view.saturation, view.hue, view.grayscale) == (0.2, 0.1, 0.2)
    assert (view.blur, view.sigma, view.solarize) == (1.0, (0.1, 2.0), 0.0)
