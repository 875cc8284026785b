"""The methods of the paper's tables by the recipes that ship: train, evaluate, save, resume."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.hub import get_config
from mmengine.registry import init_default_scope

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import assert_same_run, curve, log_file, make_images, run
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.config import read_config
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.registry import MODELS

BASELINES = ROOT / 'configs' / 'baselines'
METHODS = (
    'simclr', 'moco', 'mocov2', 'swav', 'swav_multicrop', 'byol', 'simsiam', 'supervised', 'random',
)  # fmt: skip
VARIANTS = (
    'ttl_r50_8xb104_200e',
    'imagenet/ttl_ranks2-10_r50_in1k_8xb104_200e',
    'imagenet/ttl_multicrop_r50_in1k_8xb104_200e',
    'imagenet/ttl_ranks2-10_r50_in1k_8xb104_700e',
)
NAME = re.compile(r'[a-z0-9_]+_r50_in1k_(?P<gpus>\d+)xb(?P<batch>\d+)_(?P<epochs>\d+)e')
BATCH = 11  # two iterations of make_images, and ten negatives
PLAIN = [dict(type='ttl_mm.LoadImage'), dict(type='PackInputs')]


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    return str(make_images(tmp_path_factory.mktemp('images')))


def recipe(method: str, size: str) -> Path:
    (path,) = BASELINES.glob(f'{method}_{size}_*.py')
    return path


def small(config: Path, images: str) -> dict:
    """Options for two iterations an epoch over ``images``, two epochs, kNN at the end."""
    settings = read_config(config)
    data = dict(type='ttl_mm.ImageFolder', data_root=images, with_label=True, pipeline=PLAIN)
    options = {
        'train_dataloader.batch_size': BATCH,
        'train_dataloader.num_workers': 0,
        'train_dataloader.dataset.data_root': images,
        'train_cfg.max_epochs': 2,
        'visualizer.vis_backends': [],
        '+default_hooks.curve': dict(type='CurveHook'),
        '+default_hooks.probe': dict(type='ttl_mm.ProbeHook', train=data, test=data, interval=2),
    }
    if 'queue_len' in settings.model:
        options['model.queue_len'] = 2 * BATCH
    if 'swav' in settings.default_hooks:
        options['default_hooks.swav.batch_size'] = BATCH
        options['default_hooks.swav.frozen_layers_cfg.prototypes'] = 1
    return options


def write_narrow(config: Path, images: str, folder: Path) -> Path:
    """A recipe for a ResNet-50, with a ResNet-18 of a quarter of the channels and small views."""
    settings = read_config(config, small(config, images))
    part = 'neck' if 'in_channels' in settings.model.neck else 'head'
    assert (settings.model.backbone.depth, settings.model[part].in_channels) == (50, 2048)
    settings.model.backbone.update(depth=18, base_channels=16, stem_channels=16)
    settings.model[part].in_channels = 128
    for mlp in (settings.model.neck, settings.model.head.get('predictor', {})):
        if 'hid_channels' in mlp:
            mlp.hid_channels = 32
    if settings.model.get('online_sizes'):
        settings.model.update(online_sizes=(24, 32), target_sizes=(24, 32))
    settings.train_dataloader.update(drop_last=True, persistent_workers=False, pin_memory=False)
    settings.optim_wrapper.accumulative_counts = 1
    for transform in settings.train_dataloader.dataset.pipeline:
        if transform.type == 'RandomResizedCrop':
            transform.scale = 32
        for view in transform.get('views', ()):
            view.size = 24 if view.get('size') == 96 else 32
    for name in ('dataloader', 'evaluator', 'cfg'):
        settings[f'val_{name}'] = settings[f'test_{name}'] = None
    settings.dump(folder / config.name)
    return folder / config.name


def train_whole_and_in_parts(config: Path, options: dict, folder: Path) -> Path:
    """Train once without interruption and once with one in the second epoch; they must agree."""
    whole, parts = folder / 'whole', folder / 'parts'
    assert run(config, whole, cfg_options=options) == [0]
    stop = options | {'+custom_hooks': [dict(type='SignalHook', at=3)]}
    assert run(config, parts, cfg_options=stop) == [PREEMPTED]
    assert run(config, parts, cfg_options=options) == [0]
    assert_same_run(parts, whole)
    assert len(curve(whole)) == 4
    assert sealed_files(whole)[0][0].name == 'epoch_2.pth'
    return whole


@pytest.mark.parametrize('method', METHODS)
def test_small_recipe_trains_evaluates_and_resumes(method, images, tmp_path):
    config = recipe(method, 'r14_cifar10mini')
    whole = train_whole_and_in_parts(config, small(config, images), tmp_path)
    assert log_file(whole).read_text().count('probe/knn_top1: ') == 2  # at the start and the end


@pytest.mark.parametrize('method', METHODS)
def test_recipe_of_the_paper(method, images, tmp_path):
    """Two steps; the name states the batch and the epochs."""
    config = recipe(method, 'r50')
    stated, settings = NAME.fullmatch(config.stem), read_config(config)
    assert settings.train_dataloader.batch_size == int(stated['batch'])
    assert settings.auto_scale_lr.base_batch_size == int(stated['gpus']) * int(stated['batch'])
    assert settings.train_cfg.max_epochs == int(stated['epochs'])
    work = tmp_path / 'run'
    assert run(write_narrow(config, images, tmp_path), work) == [0]
    assert len(curve(work)) == 4


@pytest.mark.parametrize('variant', VARIANTS)
def test_variant_of_ours_trains_evaluates_and_resumes(variant, images, tmp_path):
    config = write_narrow(ROOT / 'configs' / f'{variant}.py', images, tmp_path)
    train_whole_and_in_parts(config, {}, tmp_path)


def narrow_model(settings: Config) -> torch.nn.Module:
    model = settings.model
    model.backbone.update(base_channels=8, stem_channels=8, norm_cfg=dict(type='BN'))
    for part in (model.neck, model.head.predictor):
        part.update(hid_channels=32, norm_cfg=dict(type='BN1d'))
    model.neck.in_channels = 256
    return MODELS.build(model)


def test_byol_has_the_loss_of_mmpretrain_on_the_same_weights_and_views():
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    theirs = narrow_model(get_config('mmpretrain::byol/byol_resnet50_16xb256-coslr-200e_in1k.py'))
    ours = narrow_model(read_config(recipe('byol', 'r50')))
    ours.load_state_dict(theirs.state_dict())
    views = [torch.randn(6, 3, 32, 32) for _ in range(2)]
    # in evaluation mode, where the target has not moved yet and BatchNorm has no batch
    losses = [model.eval().loss(views, [])['loss'] for model in (ours, theirs)]
    assert losses[0].item() == pytest.approx(losses[1].item(), abs=1e-6)

    online = [theirs.head.predictor(theirs.neck(theirs.backbone(view)))[0] for view in views]
    target = [theirs.neck(theirs.backbone(view))[0] for view in views]
    cosines = [F.cosine_similarity(p, z).mean() for p, z in zip(online, reversed(target))]
    assert losses[0].item() == pytest.approx(-2 * sum(cosines).item(), abs=1e-5)
