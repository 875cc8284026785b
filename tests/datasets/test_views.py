import ttl_mm.registry  # noqa: F401  isort: skip
from itertools import product

import numpy as np
import pytest
import torch
from mmengine.dataset import default_collate
from mmpretrain.datasets import PackInputs
from mmpretrain.models import SelfSupDataPreprocessor
from PIL import Image

from tests.helpers.images import CHINA, encode, natural
from ttl_mm.datasets import RandomViews
from ttl_mm.datasets.decode import BadImageError, decode_image, open_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.view_params import ViewParams
from ttl_mm.datasets.views import common_divisor, render, resized_crop, snap, to_tensor
from ttl_mm.errors import UserError
from ttl_mm.registry import TRANSFORMS

IMAGE = decode_image(CHINA)  # 427 x 640
TWO_VIEWS = [dict(size=64), dict(size=64, blur=0.1, solarize=0.2)]


def sample(path=CHINA, seed=0, **more) -> dict:
    return {'img_path': str(path), 'rng': np.random.default_rng(seed), **more}


def assert_same(views, others):
    assert all(torch.equal(a, b) for a, b in zip(views, others, strict=True))


def params(box, size=(64, 64), **changes) -> ViewParams:
    plain = dict(flip=False, jitter=(), grayscale=False, sigma=None, threshold=None)
    return ViewParams(size=size, box=box, **plain | changes)


def test_crop_and_resize_equal_pillow_and_reduced_images_come_close():
    boxes = (3, 5, 60, 80), (10, 20, 224, 224), (0, 0, 427, 640), (100, 0, 300, 290), (7, 7, 1, 1)
    for (top, left, h, w), size in product(boxes, [(224, 224), (32, 96)]):
        crop = Image.fromarray(IMAGE[top : top + h, left : left + w])
        pillow = crop.resize(size[::-1], Image.Resampling.BICUBIC)
        ours = resized_crop(IMAGE, (top, left, h, w), size)
        difference = np.abs(ours.astype(int) - np.asarray(pillow))
        assert difference.mean() <= 0.1
        assert difference.max() <= 2
    for divisor in (2, 4):
        side = 400 // (2 * divisor)
        draw = params((8, 16, 400, 400), size=(side, side))
        assert common_divisor([draw], (1, 2, 4, 8)) == divisor
        reduced = open_image(CHINA).decode(divisor)
        difference = np.abs(render(reduced, draw, divisor).astype(int) - render(IMAGE, draw))
        assert difference.mean() <= 1.5
        assert np.percentile(difference, 99) <= 6


def test_the_smallest_crop_decides_on_the_reduction():
    large, small = params((0, 0, 900, 900), (50, 50)), params((0, 0, 900, 250), (50, 50))
    assert common_divisor([large], (1, 2, 4, 8)) == 8
    assert common_divisor([large, small], (1, 2, 4, 8)) == 2
    assert common_divisor([large], (1,)) == 1
    assert common_divisor([params((0, 0, 10, 10))], (1, 2)) == 1
    # 427 rows at 1/4 are 107 rows: the last one covers three
    assert snap((27, 240, 400, 400), 4) == (7, 60, 100, 100)
    top, left, h, w = snap((3, 3, 424, 637), 2)
    assert (top + h, left + w) == (214, 320)


def test_flip_order_of_operations_and_channels():
    flipped, plain = (render(IMAGE, params((0, 0, 400, 400), flip=flip)) for flip in (True, False))
    np.testing.assert_array_equal(flipped, plain[:, ::-1])
    steps = (('contrast', 0.5), ('brightness', 1.4))
    box = (0, 0, 400, 400)
    views = [render(IMAGE, params(box, jitter=jitter)) for jitter in (steps, steps[::-1])]
    assert (views[0] != views[1]).any()
    (view,) = RandomViews([dict(size=32, grayscale=1.0)])(sample())['img']
    assert view.shape == (3, 32, 32)
    assert (view == view[:1]).all()
    np.testing.assert_array_equal(to_tensor(IMAGE).numpy(), IMAGE.transpose(2, 0, 1))
    np.testing.assert_array_equal(to_tensor(IMAGE[..., 0]).numpy(), [IMAGE[..., 0]] * 3)


def test_one_sample_from_file_to_model_input():
    transform = TRANSFORMS.build(
        dict(type='ttl_mm.RandomViews', views=[*TWO_VIEWS, dict(size=32, num=3, area=(0.05, 0.14))])
    )
    packed = [PackInputs()(transform(sample(seed=seed))) for seed in range(2)]
    batch = default_collate(packed)
    assert [tuple(view.shape) for view in batch['inputs']] == [
        *[(2, 3, 64, 64)] * 2, *[(2, 3, 32, 32)] * 3
    ]  # fmt: skip
    assert {view.dtype for view in batch['inputs']} == {torch.uint8}
    assert packed[0]['data_samples'].ori_shape == (427, 640)
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    inputs = SelfSupDataPreprocessor(mean=mean, std=std, to_rgb=True)(batch)['inputs']
    rgb = packed[1]['inputs'][0].flip(0).float()
    expected = (rgb - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    torch.testing.assert_close(inputs[0][1], expected)


def test_the_generator_decides_everything_and_a_sample_index_brings_one():
    transform = RandomViews(TWO_VIEWS)
    first, again, other = (transform(sample(seed=seed))['img'] for seed in (0, 0, 1))
    assert_same(first, again)
    assert not any(torch.equal(a, b) for a, b in zip(first, other))
    index = SampleIndex(3, epoch=2, seed=1)
    by_index = RandomViews(TWO_VIEWS)({'img_path': str(CHINA), 'sample_idx': index})['img']
    assert_same(by_index, RandomViews(TWO_VIEWS)(sample(rng=index.rng()))['img'])
    growing = RandomViews([dict(size=32, later_sizes=[(2, 48)])])
    for where in ({'sample_idx': index}, {'rng': index.rng(), 'epoch': 2}):
        (view,) = growing({'img_path': str(CHINA), **where})['img']
        assert view.shape == (3, 48, 48)
    with pytest.raises(UserError, match='found no epoch'):
        growing(sample())


def test_extreme_and_16_bit_files_give_views(tmp_path):
    path = tmp_path / 'image'
    transform = RandomViews([dict(size=32, num=5, jitter=0)])
    shapes = (1, 1), (1, 10_000), (10_000, 1), (2, 2)
    for shape, kind in product(shapes, [('JPEG', 'RGB'), ('PNG', 'L'), ('PNG', 'RGBA')]):
        path.write_bytes(encode(np.full((*shape, 3), 200, np.uint8), *kind))
        for view in transform(sample(path))['img']:
            assert view.shape == (3, 32, 32)
            assert (view.int() - 200).abs().max() <= 3  # a flat image stays flat
    path.write_bytes(encode(np.full((40, 50), 0x80FF, np.uint16), 'PNG'))
    (view,) = RandomViews([dict(size=16, jitter=0)])(sample(path))['img']
    assert (view == 0x80).all()


def test_a_decoded_image_gives_the_views_of_its_file_in_either_order_of_channels(tmp_path):
    path = tmp_path / 'image.png'
    path.write_bytes(encode(natural(), 'PNG'))
    rgb, bgr = natural(), natural()[..., ::-1].copy()
    from_bgr = RandomViews(TWO_VIEWS)(sample(img=bgr))['img']
    assert_same(from_bgr, RandomViews(TWO_VIEWS)(sample(path))['img'])
    from_rgb = RandomViews(TWO_VIEWS, rgb=True)(sample(img=rgb))['img']
    assert_same(from_rgb, RandomViews(TWO_VIEWS, rgb=True)(sample(path))['img'])
    assert_same(from_rgb, [view.flip(0) for view in from_bgr])


def test_grayscale_and_mirrored_arrays_are_accepted_and_others_refused():
    transform = RandomViews([dict(size=16)])
    assert transform(sample(img=np.zeros((20, 20), np.uint8)))['img'][0].shape[0] == 3
    for wrong in (np.zeros((20, 20, 3)), np.zeros((20, 20, 4), np.uint8)):
        with pytest.raises(UserError, match='expected a uint8 image'):
            transform(sample(img=wrong))
    mirrored = IMAGE[:, ::-1]
    strided, copied = (
        RandomViews(TWO_VIEWS)(sample(img=image))['img'] for image in (mirrored, mirrored.copy())
    )
    assert_same(strided, copied)


def test_what_is_missing_or_wrong_is_named():
    with pytest.raises(BadImageError, match='max_pixels=1000'):
        RandomViews(TWO_VIEWS, max_pixels=1000)(sample())
    with pytest.raises(UserError, match='found no rng'):
        RandomViews(TWO_VIEWS)({'img_path': str(CHINA), 'sample_idx': 3})
    with pytest.raises(UserError, match='at least one view'):
        RandomViews([])
    with pytest.raises(TypeError, match='jitters'):
        RandomViews([dict(jitters=1)])
