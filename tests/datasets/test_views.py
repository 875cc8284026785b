import ttl_mm.registry  # noqa: F401  isort: skip
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import torch
from mmengine.dataset import default_collate
from mmpretrain.datasets import PackInputs
from mmpretrain.models import SelfSupDataPreprocessor
from PIL import Image

from tests.helpers.images import encode, natural
from ttl_mm.datasets import RandomViews
from ttl_mm.datasets.decode import BadImageError, decode_image, open_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.view_params import View, ViewParams
from ttl_mm.datasets.views import common_divisor, render, resized_crop, snap, to_tensor
from ttl_mm.errors import UserError
from ttl_mm.registry import TRANSFORMS

PHOTO = Path(sklearn.datasets.__file__).parent / 'images' / 'china.jpg'  # 427 x 640
TWO_VIEWS = [dict(size=64), dict(size=64, blur=0.1, solarize=0.2)]


def sample(path, seed=0) -> dict:
    return {'img_path': str(path), 'rng': np.random.default_rng(seed)}


def params(box, size=(64, 64), **changes) -> ViewParams:
    plain = dict(flip=False, jitter=(), grayscale=False, sigma=None, threshold=None)
    return ViewParams(size=size, box=box, **plain | changes)


def test_crop_and_resize_equal_pillow():
    image = decode_image(PHOTO)
    boxes = (3, 5, 60, 80), (10, 20, 224, 224), (0, 0, 427, 640), (100, 0, 300, 290), (7, 7, 1, 1)
    for (top, left, h, w), size in product(boxes, [(224, 224), (32, 96)]):
        crop = Image.fromarray(image[top : top + h, left : left + w])
        pillow = crop.resize(size[::-1], Image.Resampling.BICUBIC)
        ours = resized_crop(image, (top, left, h, w), size)
        difference = np.abs(ours.astype(int) - np.asarray(pillow))
        assert difference.mean() <= 0.1
        assert difference.max() <= 2


@pytest.mark.parametrize('divisor', [2, 4])
def test_a_view_of_a_reduced_image_is_close_to_that_of_the_whole(divisor):
    side = 400 // (2 * divisor)
    draw = params((8, 16, 400, 400), size=(side, side))
    assert common_divisor([draw], (1, 2, 4, 8)) == divisor
    whole = decode_image(PHOTO)
    reduced = open_image(PHOTO).decode(divisor)
    difference = np.abs(render(reduced, draw, divisor).astype(int) - render(whole, draw))
    assert difference.mean() <= 1.5
    assert np.percentile(difference, 99) <= 6


def test_the_smallest_crop_decides_on_the_reduction():
    large, small = params((0, 0, 900, 900), (50, 50)), params((0, 0, 900, 250), (50, 50))
    assert common_divisor([large], (1, 2, 4, 8)) == 8
    assert common_divisor([large, small], (1, 2, 4, 8)) == 2
    assert common_divisor([large], (1,)) == 1
    assert common_divisor([params((0, 0, 10, 10))], (1, 2)) == 1


def test_a_snapped_box_stays_inside_the_reduced_image():
    # 427 rows at 1/4 are 107 rows: the last one covers three
    assert snap((27, 240, 400, 400), 4) == (7, 60, 100, 100)
    top, left, h, w = snap((3, 3, 424, 637), 2)
    assert (top + h, left + w) == (214, 320)


def test_flip_mirrors_left_to_right():
    image = decode_image(PHOTO)
    box = (0, 0, 400, 400)
    np.testing.assert_array_equal(
        render(image, params(box, flip=True)), render(image, params(box))[:, ::-1]
    )


def test_operations_are_applied_in_the_drawn_order():
    image = decode_image(PHOTO)
    box = (0, 0, 400, 400)
    steps = (('contrast', 0.5), ('brightness', 1.4))
    views = [render(image, params(box, jitter=jitter)) for jitter in (steps, steps[::-1])]
    assert (views[0] != views[1]).any()


def test_grayscale_views_are_gray_in_three_channels():
    transform = RandomViews([dict(size=32, grayscale=1.0)])
    (view,) = transform(sample(PHOTO))['img']
    assert view.shape == (3, 32, 32)
    assert (view == view[:1]).all()


def test_to_tensor_puts_channels_first():
    image = decode_image(PHOTO)
    np.testing.assert_array_equal(to_tensor(image).numpy(), image.transpose(2, 0, 1))
    np.testing.assert_array_equal(to_tensor(image[..., 0]).numpy(), [image[..., 0]] * 3)


def test_a_mirrored_array_is_accepted():
    image = decode_image(PHOTO)
    rngs = [np.random.default_rng(0) for _ in range(2)]
    transform = RandomViews(TWO_VIEWS)
    strided = transform({'img': image[:, ::-1], 'rng': rngs[0]})['img']
    copied = transform({'img': image[:, ::-1].copy(), 'rng': rngs[1]})['img']
    assert all(torch.equal(a, b) for a, b in zip(strided, copied))


def test_one_sample_from_file_to_model_input():
    transform = TRANSFORMS.build(
        dict(type='ttl_mm.RandomViews', views=[*TWO_VIEWS, dict(size=32, num=3, area=(0.05, 0.14))])
    )
    packed = [PackInputs()(transform(sample(PHOTO, seed))) for seed in range(2)]
    batch = default_collate(packed)
    assert [tuple(view.shape) for view in batch['inputs']] == [(2, 3, 64, 64)] * 2 + [
        (2, 3, 32, 32)
    ] * 3
    assert {view.dtype for view in batch['inputs']} == {torch.uint8}
    assert packed[0]['data_samples'].ori_shape == (427, 640)
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    inputs = SelfSupDataPreprocessor(mean=mean, std=std, to_rgb=True)(batch)['inputs']
    rgb = packed[1]['inputs'][0].flip(0).float()
    expected = (rgb - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    torch.testing.assert_close(inputs[0][1], expected)


def test_the_generator_decides_everything():
    transform = RandomViews(TWO_VIEWS)
    first, again, other = (transform(sample(PHOTO, seed))['img'] for seed in (0, 0, 1))
    for view, same, different in zip(first, again, other):
        assert torch.equal(view, same)
        assert not torch.equal(view, different)


def test_a_sample_index_brings_its_generator():
    transform = RandomViews(TWO_VIEWS)
    index = SampleIndex(3, epoch=2, seed=1)
    by_index = transform({'img_path': str(PHOTO), 'sample_idx': index})['img']
    by_rng = transform({'img_path': str(PHOTO), 'rng': index.rng()})['img']
    assert all(torch.equal(a, b) for a, b in zip(by_index, by_rng))


def test_a_decoded_image_gives_the_views_of_its_file(tmp_path):
    path = tmp_path / 'image.png'
    path.write_bytes(encode(natural(), 'PNG'))
    transform = RandomViews(TWO_VIEWS)
    from_file = transform(sample(path))['img']
    from_array = transform({'img': decode_image(path), 'rng': np.random.default_rng(0)})['img']
    assert all(torch.equal(a, b) for a, b in zip(from_file, from_array))


def test_extreme_files_give_views(tmp_path):
    path = tmp_path / 'image'
    transform = RandomViews([dict(size=32, num=5, jitter=0)])
    shapes = (1, 1), (1, 10_000), (10_000, 1), (2, 2)
    for shape, kind in product(shapes, [('JPEG', 'RGB'), ('PNG', 'L'), ('PNG', 'RGBA')]):
        path.write_bytes(encode(np.full((*shape, 3), 200, np.uint8), *kind))
        for view in transform(sample(path))['img']:
            assert view.shape == (3, 32, 32)
            assert (view.int() - 200).abs().max() <= 3  # a flat image stays flat


def test_rgb_comes_out_as_it_went_in(tmp_path):
    bgr = natural()[..., ::-1].copy()
    path = tmp_path / 'image.png'
    path.write_bytes(encode(natural(), 'PNG'))
    results = [{'img': bgr}, {'img': bgr[..., ::-1].copy()}, {'img_path': str(path)}]
    views = [
        RandomViews(TWO_VIEWS, rgb=rgb)({**result, 'rng': np.random.default_rng(0)})['img']
        for rgb, result in zip((False, True, True), results)
    ]
    for as_bgr, as_rgb, from_file in zip(*views):
        assert torch.equal(as_bgr.flip(0), as_rgb)
        assert torch.equal(as_rgb, from_file)


def test_16_bit_files_give_views(tmp_path):
    path = tmp_path / 'image.png'
    path.write_bytes(encode(np.full((40, 50), 0x80FF, np.uint16), 'PNG'))
    (view,) = RandomViews([dict(size=16, jitter=0)])(sample(path))['img']
    assert (view == 0x80).all()


def test_grayscale_arrays_are_accepted_and_others_refused():
    transform = RandomViews([dict(size=16)])
    rng = np.random.default_rng(0)
    assert transform({'img': np.zeros((20, 20), np.uint8), 'rng': rng})['img'][0].shape[0] == 3
    for wrong in (np.zeros((20, 20, 3)), np.zeros((20, 20, 4), np.uint8)):
        with pytest.raises(UserError, match='expected a uint8 image'):
            transform({'img': wrong, 'rng': rng})


def test_what_is_missing_or_wrong_is_named():
    with pytest.raises(BadImageError, match='max_pixels=1000'):
        RandomViews(TWO_VIEWS, max_pixels=1000)(sample(PHOTO))
    with pytest.raises(UserError, match='found no rng'):
        RandomViews(TWO_VIEWS)({'img_path': str(PHOTO), 'sample_idx': 3})
    with pytest.raises(UserError, match='at least one view'):
        RandomViews([])
    with pytest.raises(TypeError, match='jitters'):
        RandomViews([dict(jitters=1)])


def test_the_paper_is_the_default():
    view = View()
    assert view.size == (224, 224)
    assert (view.jitter, view.brightness, view.contrast) == (0.8, 0.4, 0.4)
    assert (view.saturation, view.hue, view.grayscale) == (0.2, 0.1, 0.2)
    assert (view.blur, view.sigma, view.solarize) == (1.0, (0.1, 2.0), 0.0)
