"""mmpretrain's own recipes run under the same protection, from their files as they are."""

from itertools import pairwise

import pytest
import torch

from tests.helpers.toy_run import assert_same_run, curve, log_file, make_images, run
from ttl_mm.checkpoint.sealed import read_sealed, sealed_files
from ttl_mm.engine.state.exit_codes import PREEMPTED

BYOL = """
_base_ = 'mmpretrain::byol/byol_resnet50_16xb256-coslr-200e_in1k.py'
custom_imports = dict(imports=['tests.helpers.toy_run'])
view = [dict(type='RandomResizedCrop', scale=16), dict(type='RandomFlip', prob=0.5)]
views = dict(type='MultiView', num_views=[2], transforms=[view])
pipeline = [dict(type='LoadImageFromFile'), views, dict(type='PackInputs')]
images = dict(type='CustomDataset', data_root={images!r}, pipeline=pipeline, _delete_=True)
train_dataloader = dict(batch_size=4, num_workers=1, dataset=images)
norm = dict(type='SyncBN')
model = dict(
    backbone=dict(type='ResNet_CIFAR', depth=18, stem_channels=4, base_channels=4, norm_cfg=norm),
    neck=dict(in_channels=32, hid_channels=8, out_channels=8),
    head=dict(predictor=dict(in_channels=8, hid_channels=8, out_channels=8)),
)
optim_wrapper = dict(accumulative_counts=3)
train_cfg = dict(max_epochs=2)
default_hooks = dict(checkpoint=dict(max_keep_ckpts=1), curve=dict(type='CurveHook'))
randomness = dict(seed=None)
log_level = 'INFO'
"""


@pytest.fixture
def config(tmp_path):
    images = make_images(tmp_path / 'images')
    (images / 'class_0' / 'bad.png').write_bytes(b'<html>')
    (tmp_path / 'config.py').write_text(BYOL.format(images=str(images)))
    return tmp_path / 'config.py'


def test_byol_resumes_exactly_with_the_seed_that_was_drawn(tmp_path, config):
    whole, work, seeds = tmp_path / 'whole', tmp_path / 'work', []
    stop = {'+custom_hooks': [dict(type='SignalHook', at=8)]}
    for options, code in ((stop, PREEMPTED), ({}, 0)):
        assert run(config, work, cfg_options=options) == [code]
        ((path, _),) = sealed_files(work)
        seeds.append(read_sealed(path)['meta']['seed'])
    assert seeds[0] == seeds[1]
    assert run(config, whole, cfg_options={'randomness.seed': seeds[0]}) == [0]
    assert_same_run(work, whole)
    assert len(curve(work)) == 12
    assert log_file(whole).read_text().count('bad image skipped') == 1


def test_its_target_moves_once_per_optimizer_step(tmp_path, config):
    """Saved after every iteration, the target changes after the steps 3, 6 and 9 only."""
    every = dict(interval=1, by_epoch=False, max_keep_ckpts=-1)
    work = tmp_path / 'work'
    assert run(config, work, cfg_options={'default_hooks.checkpoint': every}) == [0]
    states = [read_sealed(path)['state_dict'] for path, _ in reversed(sealed_files(work))]
    name = 'target_net.module.1.fc0.weight'
    moved = [i for i, (a, b) in enumerate(pairwise(states), 2) if not torch.equal(a[name], b[name])]
    # mmpretrain updates at the beginning of a forward pass: in iterations 4, 7 and 10
    assert moved == [4, 7, 10]
