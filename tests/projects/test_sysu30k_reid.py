"""The configs of projects/sysu30k_reid: their figures, and the whole way on made-up images."""

import re

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from tests.helpers.paths import ROOT
from ttl_mm.config import read_config
from ttl_mm.engine.runner.launch import evaluate, train
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import read_features
from ttl_mm.tasks.reid.evaluate import evaluate_reid
from ttl_mm.tasks.reid.synthetic import make_split

FOLDER = ROOT / 'projects/sysu30k_reid/configs'
TRAIN = sorted(FOLDER.glob('ttl_*.py'))
TEST = sorted(FOLDER.glob('test_*.py'))


@pytest.mark.parametrize('path', TRAIN, ids=lambda path: path.stem)
def test_file_names_state_the_batch_and_the_schedule(path):
    cfg = read_config(path)
    stated = re.search(r'_(\d+)xb(\d+)(?:_accum(\d+))?_(\d+)e', path.name).groups(default='1')
    gpus, batch, accumulation, epochs = map(int, stated)
    assert cfg.train_dataloader.batch_size == batch
    assert cfg.auto_scale_lr.base_batch_size == gpus * batch
    assert not cfg.auto_scale_lr.enable
    assert cfg.optim_wrapper.accumulative_counts == accumulation
    assert cfg.train_cfg.max_epochs == epochs
    assert cfg.default_hooks.target_update.horizon_epochs == epochs
    assert {s.get('T_max', epochs) for s in cfg.param_scheduler} == {epochs}


@pytest.mark.parametrize('start', ['', '_imagenet'])
def test_the_released_recipe(start):
    cfg = read_config(FOLDER / f'ttl_ranks2-10_r50_sysu30k_4xb196_accum8_10e{start}.py')
    assert cfg.optim_wrapper.accumulative_counts * cfg.auto_scale_lr.base_batch_size == 6272
    assert cfg.optim_wrapper.optimizer.lr == 4.8
    assert [s.end for s in cfg.param_scheduler] == [2, 10]
    assert cfg.model.head.ranks == (2, 10)
    assert cfg.model.base_momentum == 0.99
    assert cfg.default_hooks.checkpoint.interval == 1
    assert cfg.train_dataloader.sampler.type == 'ttl_mm.EpochSampler'  # no list of 30 M indices
    assert [view.size for view in cfg.train_dataloader.dataset.pipeline[0].views] == [224, 224]


def test_imagenet_start_takes_the_backbone_alone(tmp_path):
    cfg = read_config(FOLDER / 'ttl_ranks2-10_r50_sysu30k_4xb196_accum8_10e_imagenet.py').model
    cfg.backbone.depth, cfg.neck.in_channels = 18, 512  # quicker
    init_default_scope('mmpretrain')
    with pytest.raises(UserError, match='checkpoint=None'):
        MODELS.build(cfg).init_weights()

    source = MODELS.build({**cfg.backbone, 'init_cfg': None})
    state = {f'backbone.{name}': tensor for name, tensor in source.state_dict().items()}
    torch.save({'state_dict': state}, tmp_path / 'imagenet.pth')
    cfg.backbone.init_cfg.checkpoint = str(tmp_path / 'imagenet.pth')
    model = MODELS.build(cfg)
    model.init_weights()
    for name, tensor in source.state_dict().items():
        assert torch.equal(model.backbone.state_dict()[name], tensor)


@pytest.mark.parametrize('path', TEST, ids=lambda path: path.stem)
def test_the_test_protocol(path):
    cfg = read_config(path)
    resize = cfg.test_dataloader.dataset.pipeline[1]
    assert (resize.scale, resize.interpolation) == ((128, 256), 'bicubic')  # width, height
    assert cfg.model.reference_flip == ('reference' in path.stem)
    assert not cfg.test_dataloader.sampler.shuffle
    assert cfg.test_evaluator.type == 'ttl_mm.RetrievalMetric'


def test_from_images_to_rank_1(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    monkeypatch.chdir(tmp_path)
    make_split('data/reid_tiny', train_people=4, images_each=8, test_people=3, distractors=4)
    options = {
        'train_cfg.max_epochs': 1,
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
    }
    train(str(FOLDER / 'ttl_ranks2-10_r18_tiny_1xb16_8e.py'), 'work', cfg_options=options)
    trained = Config.fromfile(FOLDER / 'ttl_ranks2-10_r18_tiny_1xb16_8e.py').model.backbone
    figures = evaluate(
        str(FOLDER / 'test_r50_256x128_sysu30k.py'),
        'work/epoch_1.pth',
        'work',
        cfg_options={
            'model.backbone.depth': trained.depth,
            '+model.backbone.base_channels': trained.base_channels,
            '+model.backbone.stem_channels': trained.stem_channels,
            'test_dataloader.dataset.data_root': 'data/reid_tiny/sysu_test_set_all',
            'test_dataloader.num_workers': 0,
        },
    )
    assert figures['reid/valid_queries'] == 3
    assert 100 / 7 <= figures['reid/mAP'] <= 100  # seven gallery images

    # `ttl eval --reid` has another way of reading weights and of extracting
    again = evaluate_reid('work/epoch_1.pth', 'data/reid_tiny', 'eval', batch_size=4)
    found = {figure['metric']: figure['value'] for figure in again}
    names = ('rank-1', 'rank-5', 'rank-10', 'mAP', 'mAP-trapezoid')
    assert found == pytest.approx({f'{name} (%)': figures[f'reid/{name}'] for name in names})
    np.testing.assert_allclose(
        read_features('eval/reid.safetensors').features,
        np.load('work_dirs/sysu30k_reid/features/features.npy'),
        atol=1e-6,
    )
