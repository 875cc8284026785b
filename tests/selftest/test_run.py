"""The whole self-test on gloo ranks: a healthy machine, and one on which everything is wrong."""

import json

import mmcv.ops
import pytest
import torch
from mmengine.config import Config

from ttl_mm.errors import UserError
from ttl_mm.selftest import gradient, run_selftest
from ttl_mm.selftest.checks import FAIL, NOT_APPLICABLE, PASS
from ttl_mm.selftest.run import choose_ranks

RECIPE = """
default_scope = 'mmpretrain'
runner_type = 'ttl_mm.Runner'
mlp = dict(type='NonLinearNeck', hid_channels=16, out_channels=8, with_last_bn=False)
model = dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=0.9, online_sizes=(8, 12), target_sizes=(8, 12),
    backbone=dict(
        type='ResNet_CIFAR', depth=18, stem_channels=4, base_channels=4, num_stages=1,
        strides=(1,), dilations=(1,), out_indices=(0,),
    ),
    neck=dict(mlp, in_channels=4),
    head=dict(
        type='ttl_mm.TruncatedTripletHead', deputy=2,
        predictor=dict(mlp, in_channels=8, with_avg_pool=False),
    ),
)
train_dataloader = dict(
    batch_size=64, num_workers=0, sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(type='CIFAR10', data_root='absent', split='train', pipeline=[
        dict(type='ttl_mm.RandomViews', views=[dict(size=12), dict(size=12)]),
        dict(type='PackInputs'),
    ]),
)
optim_wrapper = dict(
    type='ttl_mm.AmpOptimWrapper', accumulative_counts=5,
    optimizer=dict(type='SGD', lr=0.5, momentum=0.9),
)
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=100)
default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=100))
auto_scale_lr = dict(enable=False, base_batch_size=512)
"""
CPU = {'nccl': NOT_APPLICABLE}  # what a machine without a GPU has nothing of


@pytest.fixture
def doctor(tmp_path):
    """A function that runs the self-test in forked processes; gives status and text by name."""
    recipe = tmp_path / 'recipe.py'
    recipe.write_text(RECIPE)

    def examine(**options):
        report = run_selftest(recipe, folder=tmp_path, start_method='fork', **options)
        json.dumps(report.as_dict())
        assert [path.name for path in tmp_path.iterdir()] == ['recipe.py']  # nothing is left
        for check in report.checks:
            assert bool(check.remedy) == (check.status == FAIL), check
        print(*report.checks, *report.logs.get('log_0', ()), sep='\n')  # shown if a test fails
        return report, {check.name: check for check in report.checks}

    return examine


def test_a_process_for_every_gpu():
    assert [choose_ranks(None, 8), choose_ranks(2, 8), choose_ranks(None, 0)] == [8, 2, 2]
    assert choose_ranks(3, 0) == 3  # processes without a GPU
    with pytest.raises(UserError, match='--gpus 8: torch sees 4'):
        choose_ranks(8, 4)


def test_a_healthy_machine(doctor):
    _, checks = doctor(amp='bf16')
    assert checks.pop('speed').found  # another program may have taken the time
    status = {name: check.status for name, check in checks.items()}
    assert status == {name: PASS for name in checks} | CPU
    assert 'bit by bit' in checks['resume'].found
    assert '2 ranks over' in checks['gloo'].found


def test_everything_wrong(doctor, monkeypatch):
    def other_networks(model, cfg):  # once prepared, the network computes something else
        model.backbone.register_forward_hook(lambda module, inputs, maps: (maps[0] ** 2,))
        return prepare(model, cfg)

    prepare = gradient.prepare_networks
    monkeypatch.setattr(gradient, 'prepare_networks', other_networks)
    monkeypatch.setattr(mmcv.ops, 'nms', lambda boxes, scores, iou: (boxes, torch.arange(3)))
    pipeline = [*Config.fromstring(RECIPE, '.py').train_dataloader.dataset.pipeline]
    _, checks = doctor(
        amp='bf16',
        cfg_options={
            'custom_imports.imports': ['ttl_mm.selftest.hooks', 'tests.selftest.faults'],
            'custom_hooks': [dict(type='UnseededHook'), dict(type='HoarderHook')],
            'default_hooks.finite': None,  # nobody notices an infinite gradient
            'train_dataloader.dataset.pipeline': [dict(type='SlowDisk'), *pipeline],
        },
    )
    status = {name: check.status for name, check in checks.items()}
    healthy = {'gloo': PASS, 'training': PASS}
    assert status == {name: FAIL for name in checks} | CPU | healthy


def test_ranks_that_cannot_connect(doctor, monkeypatch):
    monkeypatch.setenv('GLOO_SOCKET_IFNAME', 'nonsense0')
    _, checks = doctor()
    assert checks['gloo'].status == FAIL
    assert 'GLOO_SOCKET_IFNAME' in checks['gloo'].remedy
    assert checks['training'].status == NOT_APPLICABLE


def test_a_recipe_that_does_not_train(doctor):
    report, checks = doctor(gpus=1, cfg_options={'optim_wrapper.optimizer.lr': -1.0})
    assert report.failed
    assert checks['training'].status == FAIL
    assert 'learning rate' in checks['training'].found
    assert checks['weights on all ranks'].found == 'one process'
