"""The linear and semi-supervised recipes on small data, and the figures they leave."""

import json
import math
import re

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from tests.helpers.checkpoints import assert_bit_equal, below, random_network
from tests.helpers.digits_run import logged
from tests.helpers.images import make_folder
from tests.helpers.paths import ROOT
from ttl_mm.compat.torch_private import BatchNorm
from ttl_mm.config import read_config
from ttl_mm.engine import Runner
from ttl_mm.engine.runner import launch
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS

CONFIGS = ROOT / 'configs'
LINEAR = CONFIGS / 'linear' / 'linear_r18_digits_1xb256_100e.py'
NARROW = {'stem_channels': 8, 'base_channels': 8}


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp('weights') / 'epoch_1.pth'
    torch.save({'state_dict': below('backbone.', random_network(0).state_dict())}, path)
    return str(path)


def runner(config, work_dir, checkpoint, epochs=2, **changes):
    config = read_config(str(config))
    config.model.backbone.init_cfg.checkpoint = checkpoint
    config.model.backbone.update(NARROW)
    config.model.head.in_channels = 64
    config.train_cfg.max_epochs = epochs
    config.visualizer.vis_backends = [{'type': 'LocalVisBackend'}]
    config.merge_from_dict(changes)
    config.work_dir = str(work_dir)
    return Runner.from_cfg(config)


@pytest.fixture(scope='module')
def trained(tmp_path_factory, checkpoint):
    work_dir = tmp_path_factory.mktemp('linear')
    run = runner(LINEAR, work_dir, checkpoint, epochs=3)
    run.train()
    return run, work_dir


def test_the_backbone_is_the_checkpoint_to_the_last_bit(trained):
    assert_bit_equal(trained[0].model.backbone.state_dict(), random_network(0).state_dict())


def test_last_and_best_epoch_are_reported_apart(trained):
    result = json.loads((trained[1] / 'results.json').read_text())
    curve = [line['accuracy/top1'] for line in logged(trained[1], 'accuracy/top1')]
    assert len(curve) == 3
    assert result['last']['epoch'] == 3
    assert result['last']['accuracy/top1'] == pytest.approx(curve[-1], abs=1e-3)
    assert result['best']['epoch'] == 1 + curve.index(max(curve))
    assert result['best']['accuracy/top1'] == pytest.approx(max(curve), abs=1e-3)
    assert result['protocol'] == 'linear, 3 epochs, SGD 0.15, batch 256'
    assert result['val']['images'] == 597
    assert len(result['backbone_sha256']) == 64


def test_the_schedule_is_the_released_one(trained):
    per_epoch = 5  # iterations
    # warm-up of 10 epochs from 1e-4, times a cosine of 100 epochs, constant within an epoch
    last = 3 * per_epoch - 1
    warm_up = 1 - (1 - last / (10 * per_epoch - 1)) * (1 - 1e-4)
    cosine = 0.5 * (1 + math.cos(math.pi * 2 / 100))
    assert logged(trained[1], 'lr')[-1]['lr'] == pytest.approx(0.15 * warm_up * cosine, rel=2e-3)


def test_the_config_in_the_work_dir_tests_and_resumes(tmp_path, checkpoint):
    options = {'model.backbone.init_cfg.checkpoint': checkpoint, 'model.head.in_channels': 64}
    options |= {f'model.backbone.{key}': value for key, value in NARROW.items()}
    launch.train(str(LINEAR), str(tmp_path), cfg_options=options | {'train_cfg.max_epochs': 1})
    copy = str(tmp_path / LINEAR.name)
    figures = launch.run_test(copy, str(tmp_path / 'epoch_1.pth'))
    result = json.loads((tmp_path / 'results.json').read_text())
    assert figures['accuracy/top1'] == pytest.approx(result['last']['accuracy/top1'], abs=1e-3)

    launch.train(copy, resume='auto', cfg_options={'train_cfg.max_epochs': 2})
    assert json.loads((tmp_path / 'results.json').read_text())['last']['epoch'] == 2


def test_unmatched_weights_end_the_run_before_it_starts(tmp_path, checkpoint):
    with pytest.raises(UserError, match='of another shape'):
        runner(LINEAR, tmp_path, checkpoint, **{'model.backbone.base_channels': 16}).train()
    with pytest.raises(UserError, match='checkpoint=None'):
        runner(LINEAR, tmp_path / 'x', None).train()


@pytest.mark.parametrize('percent', [1, 10])
def test_semi_supervised_recipes_train_on_a_folder(tmp_path, checkpoint, percent):
    make_folder(tmp_path / 'train', count=20)
    make_folder(tmp_path / 'val', count=2)
    in_this_process = {'num_workers': 0, 'persistent_workers': False}
    changes = {
        'model.backbone': {'type': 'ResNet_CIFAR', 'depth': 18},
        'model.head': {'num_classes': 3, 'topk': (1,)},
        'train_dataloader': {'batch_size': 2, **in_this_process},
        'train_dataloader.dataset.dataset.data_root': str(tmp_path / 'train'),
        'val_dataloader': in_this_process,
        'val_dataloader.dataset.data_root': str(tmp_path / 'val'),
        'val_evaluator.topk': (1,),
    }
    config = CONFIGS / 'semi' / f'semi_r50_in1k_4xb64_20e_{percent}pct.py'
    run = runner(config, tmp_path / 'run', checkpoint, epochs=1, **changes)
    run.train()
    result = json.loads((tmp_path / 'run' / 'results.json').read_text())
    assert result['train']['images'] == {1: 3, 10: 6}[percent]  # at least one of each class
    moved = run.model.backbone.layer1[0].conv1.weight
    assert not moved.equal(random_network(0).layer1[0].conv1.weight)


EVERY = sorted((CONFIGS / 'linear').glob('*.py')) + sorted((CONFIGS / 'semi').glob('*.py'))


@pytest.mark.parametrize('path', EVERY, ids=lambda path: path.stem)
def test_every_recipe_builds_a_model_of_the_right_kind(path):
    config = Config.fromfile(path)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        config.model.backbone.init_cfg = None
        model = MODELS.build(config.model)
    model.train()
    trained = {name.split('.')[0] for name, p in model.named_parameters() if p.requires_grad}
    linear = path.parent.name == 'linear'
    assert trained == ({'head'} if linear else {'backbone', 'head'})
    norms = [part for part in model.backbone.modules() if isinstance(part, BatchNorm)]
    assert {norm.training for norm in norms} == {not linear}
    decay = 0 if linear else 1e-4 if path.stem.endswith('10pct') else 5e-4  # as OpenSelfSup has it
    assert config.optim_wrapper.optimizer.weight_decay == decay
    (size,) = (part for part in path.stem.split('_') if re.fullmatch(r'\d+xb\d+', part))
    processes, batch = size.split('xb')
    assert int(processes) * int(batch) == config.auto_scale_lr.base_batch_size
    assert config.train_dataloader.batch_size == int(batch)
