"""Images beyond 8-bit RGB keep their channels and their depth."""

import cv2
import numpy as np
import pytest
import tifffile
import torch

from tests.helpers.images import encode, natural
from ttl_mm.datasets import ImageFolder, LoadBands, RandomViews, color, float_color
from ttl_mm.datasets.bands import Bands, decode_to_look_at, measure, picture, read_bands
from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.shard_writer import shard_files, write_shard
from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import archive_index

VIEWS = [dict(size=24), dict(size=(16, 20), blur=0.5, solarize=1.0)]
SOURCE = natural(40, 56)


def save(folder, kind, image=SOURCE):
    """One image of a kind; what :func:`read_bands` shall return."""
    path = folder / f'{kind}.{"npy" if kind == "npy" else "tif" if "tiff" in kind else "png"}'
    if kind == 'gray12':
        stored = (image[:, :, :1].astype(np.uint16) << 4) + 3
        cv2.imwrite(str(path), stored)
    elif kind == 'rgb16':
        stored = image.astype(np.uint16) * 257  # BGR
        cv2.imwrite(str(path), stored)
    elif kind == 'tiff_rgbn':
        stored = np.dstack([image, image[:, :, 1]])
        options = dict(photometric='rgb', extrasamples=[0], planarconfig='contig')
        tifffile.imwrite(path, stored, **options)
    elif kind == 'tiff8':
        stored = np.dstack([image, image, image[:, :, :2]]).astype(np.uint16) * 40
        tifffile.imwrite(path, stored, photometric='minisblack', planarconfig='contig')
    elif kind == 'tiff_float':
        stored = image[:, :, :1].astype(np.float32) / 100 - 1
        tifffile.imwrite(path, stored[:, :, 0])
    else:
        stored = np.dstack([image, image[:, :, :2]]).astype(np.float64)
        np.save(path, stored.transpose(2, 0, 1))
    return path, stored


@pytest.mark.parametrize('kind', ['gray12', 'rgb16', 'tiff_rgbn', 'tiff8', 'tiff_float', 'npy'])
def test_every_kind_comes_as_stored_and_makes_views_of_all_channels(tmp_path, kind):
    path, stored = save(tmp_path, kind)
    image = read_bands(path)
    assert image.dtype == stored.dtype
    assert np.array_equal(image, stored)
    found = measure([path])
    channels = stored.shape[2]
    assert len(found.mean) == len(found.std) == found.bands.channels == channels
    assert not found.cautions
    views = RandomViews(VIEWS, bands=found.bands.config())
    results = [views({'img_path': str(path), 'sample_idx': SampleIndex(3, 1)}) for _ in range(2)]
    first, again = (result['img'] for result in results)
    assert [tuple(view.shape) for view in first] == [(channels, 24, 24), (channels, 16, 20)]
    for left, right in zip(first, again):
        assert left.dtype == torch.float32
        assert torch.isfinite(left).all()
        assert torch.equal(left, right)
    small = LoadBands(found.bands, 20)({'img_path': str(path)})['img']
    assert small.shape == (20, 28, channels)
    # the same values over all pixels, whatever the size
    assert small.mean() == pytest.approx(found.bands.scaled(image).mean(), rel=0.02)
    assert decode_to_look_at(path).shape[2] == 3


def test_full_depth_survives():
    """A ramp of 4,096 levels has them all in a view, and 16 as 8 bit."""
    ramp = np.arange(4096, dtype=np.uint16).reshape(64, 64, 1)
    views = RandomViews(
        [dict(size=64, area=(1, 1), ratio=(1, 1), flip=0, jitter=0, grayscale=0, blur=0)],
        bands=dict(low=(0,), high=(4095,)),
    )
    (view,) = views({'img': ramp, 'sample_idx': SampleIndex(0)})['img']
    assert len(view.unique()) == 4096
    assert np.allclose(view[0].numpy(), ramp[:, :, 0] * (255 / 4095), atol=1e-4)


def test_operations_mean_the_same_as_for_8_bit():
    image = natural(30, 44, seed=4)
    image = np.ascontiguousarray(image // 2 + 40)  # nothing saturates
    deep = image.astype(np.float32)
    for name, factor in (('brightness', 1.2), ('contrast', 0.8), ('saturation', 1.1)):
        plain = color.JITTER[name](image, factor).astype(float)
        assert np.abs(float_color.JITTER[name](deep, factor) - plain).max() <= 1.5, name
    hue = np.abs(float_color.adjust_hue(deep, 0.1) - color.adjust_hue(image, 0.1).astype(float))
    assert hue.mean() < 2
    blurred = float_color.gaussian_blur(deep, 1.3) - color.gaussian_blur(image, 1.3).astype(float)
    assert np.abs(blurred).max() <= 1
    assert np.abs(float_color.to_gray(deep)[:, :, 0] - color.to_gray(image).astype(float)).max() < 1
    assert np.array_equal(float_color.solarize(deep, 128), color.solarize(image, 128))
    for channels in (1, 8):
        many = np.repeat(deep[:, :, :1], channels, axis=2)
        for one in float_color.gaussian_blur(many, 1.3), float_color.adjust_contrast(many, 0.5):
            assert one.shape == many.shape
            assert np.array_equal(one[:, :, 0], one[:, :, -1])


def test_measured_ranges_and_what_is_said_about_them(tmp_path):
    hot = (natural(256, 256).astype(np.uint16) << 4)[:, :, :1]
    highest = hot.max()
    hot[0, 0] = 65535  # a single hot pixel sets no range
    np.save(tmp_path / 'hot.npy', hot)
    assert measure([tmp_path / 'hot.npy']).bands.high[0] <= highest
    dead = np.dstack([SOURCE, np.full_like(SOURCE[:, :, :1], 7)]).astype(np.float32)
    dead[0, :4, 0] = np.nan
    np.save(tmp_path / 'dead.npy', dead)
    found = measure([tmp_path / 'dead.npy'])
    assert 'NaN, infinite or marked as without data' in found.cautions[0]
    assert 'channel 4 of 4 is 7 in every image that was looked at (1)' in found.cautions[1]
    assert found.std[3] == 1
    assert np.isfinite(found.bands.scaled(dead)).all()
    assert str(found).startswith('4 channels of float32, values ')
    with pytest.raises(UserError, match=r'hot.npy has 1 channels of uint16.*has 4 of float32'):
        measure([tmp_path / 'hot.npy', tmp_path / 'dead.npy'])
    with pytest.raises(UserError, match='none of the images'):
        measure([tmp_path / 'missing.npy'])


def test_mean_and_deviation_are_those_of_the_network_s_input(tmp_path):
    """For three channels in the order red, green, blue."""
    rgb = np.zeros((20, 20, 3), np.uint16)
    rgb[:10, :, 0], rgb[..., 1] = 65535, 13107  # red half of the time, green a fifth
    tifffile.imwrite(tmp_path / 'x.tif', rgb, photometric='rgb')
    found = measure([tmp_path / 'x.tif'])
    assert found.mean == pytest.approx((127.5, 51, 0), abs=0.01)
    assert found.std == pytest.approx((127.5, 1, 1), abs=0.01)


def test_bands_are_checked_and_other_channels_are_bad_images(tmp_path):
    for low, high in (((), ()), ((0, 0), (1,)), ((1,), (1,)), ((0,), (float('nan'),))):
        with pytest.raises(UserError, match='bands'):
            Bands(low, high)
    path, _ = save(tmp_path, 'tiff8')
    with pytest.raises(BadImageError, match=r'tiff8.tif: 8 channels, 4 are expected'):
        Bands((0,) * 4, (1,) * 4).read(path)
    (tmp_path / 'cut.tif').write_bytes(path.read_bytes()[:300])
    with pytest.raises(BadImageError, match=r'cut.tif: a TIFF that is cut short'):
        read_bands(tmp_path / 'cut.tif')
    with pytest.raises(BadImageError, match='pixels are more than'):
        read_bands(path, max_pixels=100)
    with pytest.raises(UserError, match='both must have as many'):
        RandomViews(VIEWS, bands=dict(low=(0,), high=(1,)))({'img': SOURCE, 'rng': None})


def test_ordinary_images_are_decoded_as_ever(tmp_path):
    (tmp_path / 'a.jpg').write_bytes(encode(SOURCE))
    assert np.array_equal(read_bands(tmp_path / 'a.jpg'), decode_image(tmp_path / 'a.jpg'))
    cv2.imwrite(str(tmp_path / 'gray.png'), SOURCE[:, :, 0])
    assert Bands((0,), (255,)).read(tmp_path / 'gray.png').shape == (40, 56, 1)


def test_arrays_are_images_where_there_are_no_others(tmp_path):
    for i in range(3):
        np.save(tmp_path / f'{i}.npy', SOURCE[:, :, :2])
    assert list(ImageFolder(str(tmp_path)).names) == ['0.npy', '1.npy', '2.npy']
    (tmp_path / 'out').mkdir()
    shard = tmp_path / 'out' / 'x.tar'
    write_shard(shard, list(shard_files(tmp_path, ['0.npy', '2.npy'])))
    assert archive_index(shard).names.read_text().split() == ['0.npy', '2.npy']
    assert read_bands(f'{shard}/2.npy').shape == (40, 56, 2)
    (tmp_path / 'a.jpg').write_bytes(encode(SOURCE))
    assert list(ImageFolder(str(tmp_path)).names) == ['a.jpg']


def test_pictures_show_every_channel():
    image = np.zeros((4, 6, 5), np.float32)
    image[..., 2] = 300
    shown = picture(image)
    assert shown.shape == (4, 30, 3)
    assert (shown[:, 12:18] == 255).all()
    assert shown.sum() == 255 * 4 * 6 * 3
