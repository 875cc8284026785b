"""The truncated triplet method among mmselfsup's parts: its scope, preprocessor and samples."""

import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope

from tests.helpers.toy_run import assert_same_run, curve, log_file, make_images, run

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip  (once, for all children)
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.registry import MODELS

TTL = """
custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts', 'tests.helpers.toy_run'])
default_scope = 'mmselfsup'
mlp = dict(type='NonLinearNeck', hid_channels=16, out_channels=8, with_last_bn=False)
model = dict(
    type='TTLAlgorithm', online_sizes=(16, 24), target_sizes=(16, 24),
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor', mean=(124, 116, 104), std=(58, 57, 57), bgr_to_rgb=True
    ),
    backbone=dict(type='ResNet', depth=18, stem_channels=4, base_channels=4),
    neck=dict(mlp, in_channels=32),
    head=dict(
        type='TruncatedTripletHead', deputy=2,
        predictor=dict(mlp, in_channels=8, with_avg_pool=False),
    ),
)
view = [dict(type='RandomResizedCrop', size=24), dict(type='RandomFlip', prob=0.5)]
images = dict(type='ttl_mm.ImageFolder', data_root={images!r}, with_label=True)
train_dataloader = dict(
    batch_size=8, num_workers=0, drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        images,
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='MultiView', num_views=2, transforms=[view]),
            dict(type='PackSelfSupInputs', algorithm_keys=['gt_label'], meta_keys=['img_path']),
        ],
    ),
)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1))
train_cfg = dict(by_epoch=True, max_epochs=1)
plain = [dict(type='LoadImageFromFile'), dict(type='mmpretrain.PackInputs')]
default_hooks = dict(
    target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=1),
    gauges=dict(type='ttl_mm.GaugeHook'),
    probe=dict(
        type='ttl_mm.ProbeHook', neighbors=3,
        train=dict(images, pipeline=plain), test=dict(images, pipeline=plain),
    ),
    curve=dict(type='CurveHook'),
)
visualizer = dict(type='SelfSupVisualizer', vis_backends=[dict(type='LocalVisBackend')])
randomness = dict(seed=0)
"""
STOP = "custom_hooks = [dict(type='SignalHook', at=1)]\n"


def test_it_trains_and_resumes_under_the_scope_of_mmselfsup(tmp_path):
    text = TTL.format(images=str(make_images(tmp_path / 'images')))
    plain, stop = tmp_path / 'plain.py', tmp_path / 'stop.py'
    plain.write_text(text)
    stop.write_text(text + STOP)
    whole, parts = tmp_path / 'whole', tmp_path / 'parts'
    assert run(plain, whole) == [0]
    assert run(stop, parts) == [PREEMPTED]
    assert run(plain, parts) == [0]
    assert_same_run(parts, whole)
    assert len(curve(whole)) == 2
    assert [path.name for path, _ in sealed_files(whole)] == ['epoch_1.pth']
    log = log_file(whole).read_text()
    assert log.count('probe/knn_top1: ') == 2
    assert 'gauge/effective_rank: ' in log
    assert 'gauge/pr_omega_a: ' in log


def test_its_preprocessor_leads_to_the_same_loss():
    with DefaultScope.overwrite_default_scope('mmselfsup'):
        torch.manual_seed(0)
        model = MODELS.build(Config.fromstring(TTL.format(images=''), '.py').model)
    model = revert_sync_batchnorm(model)
    views = [torch.randint(0, 256, (8, 3, 24, 24), dtype=torch.uint8) for _ in range(2)]
    theirs = model.data_preprocessor({'inputs': views, 'data_samples': None}, True)
    normalize = dict(mean=(124, 116, 104), std=(58, 57, 57), to_rgb=True)
    ours = MODELS.build(dict(type='mmpretrain.SelfSupDataPreprocessor', **normalize))
    expected = model(**ours({'inputs': views, 'data_samples': None}, True), mode='loss')['loss']
    model.set_progress(seed=0, iteration=0)  # the same again
    assert model(*theirs, mode='loss')['loss'].item() == expected.item()
