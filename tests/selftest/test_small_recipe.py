"""Every recipe of the repository can be cut down; its network, loss and optimizer stay."""

import cv2
import pytest
from mmengine.config import Config

from tests.helpers.paths import ROOT
from ttl_mm.config import read_config
from ttl_mm.selftest.small_recipe import highest_rank, make_images, small_dataset, small_recipe


def test_what_stays_and_what_is_scaled(tmp_path):
    recipe = read_config(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    small = small_recipe(recipe, tmp_path, batch=104, ranks=4, workers=8)
    assert small.model == recipe.model
    pipeline = recipe.train_dataloader.dataset.pipeline
    assert small.train_dataloader.dataset.pipeline == pipeline
    # 4 x 104 x 2 images per step instead of 8 x 104 x 5
    assert small.optim_wrapper.optimizer.lr == pytest.approx(4.8 * 832 / 4160)
    assert small.default_hooks.target_update == recipe.default_hooks.target_update
    assert small.default_hooks.gauges is None
    small.dump(tmp_path / 'small.py')
    assert read_config(tmp_path / 'small.py').model == recipe.model


def test_every_kind_of_dataset_reads_the_folder(tmp_path):
    views = [dict(type='ttl_mm.RandomViews')]
    crop = [dict(type='RandomCrop')]

    def steps(**dataset):
        return [step['type'] for step in small_dataset(dataset, tmp_path)['pipeline']]

    assert steps(type='ImageNet', pipeline=views) == ['ttl_mm.RandomViews']
    assert steps(type='CIFAR10', pipeline=crop) == ['ttl_mm.LoadImage', 'RandomCrop']
    wrapped = dict(type='ImageNet', pipeline=[dict(type='LoadImageFromFile'), *crop])
    assert steps(type='ttl_mm.Part', dataset=wrapped) == ['LoadImageFromFile', 'RandomCrop']
    digits = dict(type='ttl_mm.Digits', pipeline=crop)
    assert small_dataset(digits, tmp_path) == digits


def test_the_batch_must_hold_the_deputy():
    deputies = (5, (2, 10), 'median', None)
    models = [Config(dict(head=dict(deputy=d) if d else {})) for d in deputies]
    assert [highest_rank(model) for model in models] == [5, 10, 0, 0]


def test_images_are_files_that_differ(tmp_path):
    make_images(tmp_path, 70)
    paths = sorted(tmp_path.rglob('*.jpg'))
    assert len(paths) == 70
    assert cv2.imread(str(paths[0])).shape == (375, 500, 3)
    assert len({path.read_bytes() for path in paths}) == 64
