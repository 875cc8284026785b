"""mmselfsup's five systems by the recipes that ship: training, evaluation, saving, resuming."""

import re
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import assert_same_run, curve, log_file, make_images, run
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.config import read_config
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip  (once, for all children)

CONFIGS = ROOT / 'configs' / 'baselines'
SYSTEMS = ('rotation-pred', 'relative-loc', 'npid', 'deepcluster', 'odc')
IMAGES, CLUSTERS = 22, 3
NAME = re.compile(r'[a-z-]+_r50_in1k_(\d+)xb(\d+)_(\d+)e')


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    return str(make_images(tmp_path_factory.mktemp('images'), IMAGES))


def recipe(system: str, size: str) -> Path:
    (path,) = CONFIGS.glob(f'{system}_{size}_*.py')
    return path


def small(system: str, images: str) -> dict:
    """Options that bring a recipe down to two iterations an epoch, over ``images``."""
    options = {
        'train_dataloader.batch_size': 8,
        'train_dataloader.num_workers': 0,
        'train_dataloader.dataset.data_root': images,
        'train_cfg.max_epochs': 2,
        'visualizer.vis_backends': [],
        '+default_hooks.curve': dict(type='CurveHook'),
    }
    if system in ('npid', 'odc'):
        options['model.memory_bank.length'] = IMAGES
    if system == 'npid':
        options['model.neg_num'] = 8
    if system == 'odc':
        options['model.memory_bank.num_classes'] = CLUSTERS
        options['model.memory_bank.min_cluster'] = 2
    if system in ('deepcluster', 'odc'):
        options |= {
            'model.head.num_classes': CLUSTERS,
            'default_hooks.cluster.num_clusters': CLUSTERS,
            'default_hooks.cluster.dataset.data_root': images,
        }
    return options


@pytest.mark.parametrize('system', SYSTEMS)
def test_small_recipe_trains_evaluates_and_resumes(system, images, tmp_path):
    options = small(system, images) | {
        'default_hooks.probe.train.data_root': images,
        'default_hooks.probe.test.data_root': images,
    }
    whole, parts, config = tmp_path / 'whole', tmp_path / 'parts', recipe(system, 'r14_cifar10mini')
    assert run(config, whole, cfg_options=options) == [0]
    stop = options | {'+custom_hooks': [dict(type='SignalHook', at=3)]}  # mid-epoch
    assert run(config, parts, cfg_options=stop) == [PREEMPTED]
    assert run(parts / config.name, parts) == [0]  # by the config that the run keeps
    assert_same_run(parts, whole)
    assert len(curve(whole)) == 4
    assert sealed_files(whole)[0][0].name == 'epoch_2.pth'
    assert log_file(whole).read_text().count('probe/knn_top1: ') == 2  # at the start and the end


@pytest.mark.parametrize('system', SYSTEMS)
def test_recipe_of_the_paper(system, images, tmp_path):
    """Two steps with an eighth of the channels; its name states the batch and the epochs."""
    config = recipe(system, 'r50')
    settings = read_config(config)
    gpus, batch, epochs = map(int, NAME.fullmatch(config.stem).groups())
    assert settings.train_dataloader.batch_size == batch
    assert settings.auto_scale_lr.base_batch_size == gpus * batch
    assert settings.train_cfg.max_epochs == epochs

    options = small(system, images) | {
        'train_dataloader.persistent_workers': False,
        'train_dataloader.pin_memory': False,
        'train_cfg.max_epochs': 1,
        '+model.backbone.base_channels': 8,
        '+model.backbone.stem_channels': 8,
    }
    part = 'head' if system in ('rotation-pred', 'deepcluster') else 'neck'
    options[f'model.{part}.in_channels'] = 256
    if system in ('deepcluster', 'odc'):
        options['default_hooks.cluster.num_workers'] = 0
    assert run(config, tmp_path / 'run', cfg_options=options) == [0]
    assert len(curve(tmp_path / 'run')) == 2


def test_settings_that_do_not_fit_the_data_or_the_loop(images, tmp_path):
    bank, clusters = small('npid', images), small('deepcluster', images)
    del bank['model.memory_bank.length'], clusters['train_cfg.max_epochs']
    clusters['train_cfg'] = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=2)
    rows = 'has 10000 rows and the training data 22 images: set model.memory_bank.length'
    for system, options, message in (
        ('npid', bank, rows),
        ('deepcluster', clusters, 'interval=1 counts epochs'),
    ):
        work, config = tmp_path / system, recipe(system, 'r14_cifar10mini')
        assert run(config, work, cfg_options=options) == [USER_ERROR]
        assert message in log_file(work).read_text().splitlines()[-1]
