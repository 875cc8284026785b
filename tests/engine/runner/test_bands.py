"""Images beyond 8-bit RGB: trained, resumed to the last bit, evaluated and exported."""

import re

import cv2
import numpy as np
import pytest
import tifffile
import torch

from tests.helpers.images import dicom
from tests.helpers.toy_run import ITERATIONS, STOP, assert_same_run, log_file, run, write_config
from ttl_mm.checkpoint.input_settings import read_input_settings
from ttl_mm.checkpoint.sealed import newest_valid
from ttl_mm.datasets.bands import Bands
from ttl_mm.engine.guards.pixels import lost, outside
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.evaluation.run import extract_splits
from ttl_mm.export import export_backbone
from ttl_mm.planning.image_sources import find_images, look_at_some

MODEL = """dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=None, online_sizes=None, target_sizes=None,
    data_preprocessor=dict(
        type='ttl_mm.BandsPreprocessor', mean={mean}, std={std}, to_rgb={rgb}),
    backbone=dict(
        type='ResNet_CIFAR', depth=18, base_channels=4, stem_channels=4, in_channels={channels}),
    neck=dict(type='NonLinearNeck', in_channels=32, hid_channels=8, out_channels=8),
    head=dict(
        type='ttl_mm.TruncatedTripletHead', predictor=None, gamma=1.0, deputy=(1, 2)))"""
VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8), dict(size=8)], bands={bands}),
    dict(type='PackInputs'),
]"""
VERBOSE = "log_level = 'INFO'\n"
SHORT = ITERATIONS.replace('20', '6')


def write(path, kind, rng) -> None:
    if kind == 'gray12':
        cv2.imwrite(str(path.with_suffix('.png')), rng.integers(0, 4096, (9, 9), np.uint16))
    elif kind == 'rgb16':
        cv2.imwrite(str(path.with_suffix('.png')), rng.integers(0, 65536, (9, 9, 3), np.uint16))
    elif kind == 'rgbn':
        image = rng.integers(0, 256, (9, 9, 4), np.uint8)
        options = dict(photometric='rgb', extrasamples=[0], planarconfig='contig')
        tifffile.imwrite(path.with_suffix('.tif'), image, **options)
    elif kind == 'ct':
        stored = rng.integers(0, 4096, (9, 9), np.uint16)
        settings = dict(RescaleIntercept='-1024', PixelPaddingValue=0)
        path.with_suffix('.dcm').write_bytes(dicom(stored, **settings))
    else:
        image = rng.integers(0, 10_000, (9, 9, 8), np.uint16)
        options = dict(photometric='minisblack', planarconfig='contig')
        tifffile.imwrite(path.with_suffix('.tif'), image, **options)


@pytest.fixture
def images(request, tmp_path):
    """24 images of a kind in two classes."""
    rng = np.random.default_rng(0)
    for i in range(24):
        path = tmp_path / request.param / f'class_{i % 2}' / f'{i:03}'
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, request.param, rng)
    return tmp_path / request.param


@pytest.mark.parametrize(
    ('images', 'channels'),
    [('gray12', 1), ('rgb16', 3), ('rgbn', 4), ('eight', 8), ('ct', 1)],
    indirect=['images'],
)
def test_trained_resumed_evaluated_exported(tmp_path, images, channels):
    measured, left_out = look_at_some(find_images([images]))
    assert measured.bands.channels == channels
    assert not left_out
    numbers = dict(mean=measured.mean, std=measured.std, channels=channels, rgb=channels == 3)
    bands = measured.bands.config()
    settings = dict(
        loop=SHORT, model=MODEL.format(**numbers), pipeline=VIEWS.format(bands=bands),
    )  # fmt: skip
    config = write_config(tmp_path / 'config.py', images, more=VERBOSE, **settings)
    stopped = write_config(tmp_path / 'stopped.py', images, more=STOP.format(3), **settings)
    assert run(config, tmp_path / 'whole') == [0]
    log = log_file(tmp_path / 'whole').read_text()
    assert ('have no colors: saturation, hue, grayscale are left out' in log) == (channels != 3)
    assert run(stopped, tmp_path / 'parts') == [PREEMPTED]
    assert run(config, tmp_path / 'parts') == [0]
    assert_same_run(tmp_path / 'parts', tmp_path / 'whole')

    checkpoint, _ = newest_valid(tmp_path / 'whole')
    trained = read_input_settings(checkpoint)
    assert trained.bands == bands
    assert trained.mean == measured.mean
    files = {to: export_backbone(checkpoint, to) for to in ('plain', 'safetensors', 'onnx')}
    for to in ('plain', 'safetensors'):
        assert read_input_settings(files[to]) == trained
    features = {}
    for source in (checkpoint, files['plain']):
        folder = tmp_path / f'features_{source.stem}'
        train, test = extract_splits(str(source), str(images), folder, 'cpu')
        features[source] = train.read_bytes()[-1000:]  # numbers, without the header
        assert test.exists()
    assert len(set(features.values())) == 1


@pytest.mark.parametrize('images', ['gray12', 'eight'], indirect=True)
def test_a_pipeline_for_8_bit_says_what_it_loses(tmp_path, images):
    paths = sorted(str(path) for path in images.rglob('*.*'))
    (sentence,) = lost(paths)
    if images.name == 'eight':
        assert 'has 8 channels, and this run sees three at most' in sentence
        return
    assert 'in 16 bit: read as 8 bit, they become 16 of 256 levels' in sentence
    config = write_config(tmp_path / 'config.py', images, loop=SHORT, pipeline=STOCK, more=VERBOSE)
    assert run(config, tmp_path / 'work') == [0]
    log = log_file(tmp_path / 'work').read_text()
    assert 'become 16 of 256 levels' in log
    assert log.index('become 16 of 256') < log.index('(train)')


@pytest.mark.parametrize('images', ['gray12', 'eight'], indirect=True)
def test_bands_that_do_not_fit_the_images_are_said(images):
    paths = sorted(str(path) for path in images.rglob('*.*'))
    bands = look_at_some(find_images([images]))[0].bands
    assert outside(paths, bands) == []
    (sentence,) = outside(paths, Bands(bands.low, (65535.0 * 2,) * bands.channels))
    span = {'gray12': 4095, 'eight': 10_000}[images.name]
    found = re.search(
        r'of (\d), and its bands are (\S+) to 131070: it comes out with (.*) of 255', sentence
    )
    assert int(found[1]) == bands.channels
    assert float(found[3]) == pytest.approx(255 * span / 131_070, rel=0.1)
    assert outside([*paths[:4], *['missing.png'] * 9], bands) == []


STOCK = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8), dict(size=8)]), dict(type='PackInputs'),
]"""


def test_ordinary_images_lose_nothing(tmp_path):
    image = np.random.default_rng(0).integers(0, 65536, (9, 9), np.uint16)
    cv2.imwrite(str(tmp_path / 'a.png'), image)  # 16 bit in full
    cv2.imwrite(str(tmp_path / 'b.jpg'), np.zeros((9, 9, 3), np.uint8))
    (tmp_path / 'c.tif').write_bytes(b'II*\0')
    assert lost(str(tmp_path / name) for name in ('a.png', 'b.jpg', 'c.tif', 'd.png')) == []


def test_the_preprocessor_takes_any_channels():
    from ttl_mm.models import BandsPreprocessor

    normalize = BandsPreprocessor([10.0] * 5, [2.0] * 5)
    images = torch.full((2, 5, 4, 4), 14.0)
    assert torch.equal(
        normalize({'inputs': [images], 'data_samples': [None]})['inputs'][0],
        torch.full_like(images, 2),
    )
