"""The configs of projects/sysu30k_reid: their figures, and the whole way on made-up images."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from PIL import Image

from tests.helpers.checkpoints import assert_bit_equal, below
from tests.helpers.paths import ROOT
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.engine.runner.launch import train
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import read_features
from ttl_mm.tasks.reid.synthetic import make_split

FOLDER = ROOT / 'projects/sysu30k_reid/configs'
RELEASED, TINY = 'ttl_ranks2-10_r50_sysu30k_4xb196_accum8_10e', 'ttl_ranks2-10_r18_tiny_1xb16_8e'


def test_file_names_state_the_batch_and_the_schedule():
    paths = sorted(FOLDER.glob('ttl_*.py'))
    assert {RELEASED, f'{RELEASED}_imagenet', TINY} <= {path.stem for path in paths}
    for path in paths:
        cfg = read_config(path)
        stated = re.search(r'_(\d+)xb(\d+)(?:_accum(\d+))?_(\d+)e', path.name).groups(default='1')
        gpus, batch, accumulation, epochs = map(int, stated)
        assert cfg.train_dataloader.batch_size == batch
        assert cfg.auto_scale_lr == dict(base_batch_size=gpus * batch, enable=False)
        assert cfg.optim_wrapper.accumulative_counts == accumulation
        assert cfg.train_cfg.max_epochs == epochs
        assert cfg.default_hooks.target_update.horizon_epochs == epochs
        assert {s.get('T_max', epochs) for s in cfg.param_scheduler} == {epochs}


def test_the_released_recipe():
    for start in ('', '_imagenet'):
        cfg = read_config(FOLDER / f'{RELEASED}{start}.py')
        loader = cfg.train_dataloader
        assert cfg.optim_wrapper.optimizer.lr == 4.8
        assert [s.end for s in cfg.param_scheduler] == [2, 10]
        assert (cfg.model.head.deputy, cfg.model.target_momentum) == ((2, 10), 0.99)
        assert cfg.default_hooks.checkpoint.interval == 1
        assert loader.sampler.type == 'ttl_mm.EpochSampler'  # no list of 30 M indices
        assert [view.size for view in loader.dataset.pipeline[0].views] == [224, 224]


def test_imagenet_start_takes_the_backbone_alone(tmp_path):
    cfg = read_config(FOLDER / f'{RELEASED}_imagenet.py').model
    cfg.backbone.depth, cfg.neck.in_channels = 18, 512  # quicker
    init_default_scope('mmpretrain')
    with pytest.raises(UserError, match='checkpoint=None'):
        MODELS.build(cfg).init_weights()

    source = MODELS.build({**cfg.backbone, 'init_cfg': None})
    state = source.state_dict()
    torch.save({'state_dict': below('backbone.', state)}, tmp_path / 'imagenet.pth')
    cfg.backbone.init_cfg.checkpoint = str(tmp_path / 'imagenet.pth')
    model = MODELS.build(cfg)
    model.init_weights()
    assert_bit_equal(model.backbone.state_dict(), state)


def plain_features(paths: list[str], state: dict, cfg: dict) -> np.ndarray:
    """The protocol in a few lines: 256 x 128 bicubic, image plus mirror image, unit length."""
    init_default_scope('mmpretrain')
    backbone = MODELS.build({**cfg, 'init_cfg': None, 'norm_cfg': dict(type='BN')})
    backbone.load_state_dict({n[9:]: t for n, t in state.items() if n.startswith('backbone.')})
    backbone.eval()  # returns None
    mean, std = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
    rows = []
    for path in paths:
        image = Image.open(path).resize((128, 256), Image.BICUBIC)
        pixels = ((np.asarray(image) - mean) / std).transpose(2, 0, 1).astype(np.float32)
        both = torch.from_numpy(np.stack([pixels, pixels[:, :, ::-1]]))
        with torch.no_grad():
            feature = backbone(both)[-1].mean((2, 3)).sum(0).numpy()
        rows.append(feature / np.linalg.norm(feature))
    return np.array(rows)


def test_from_images_to_rank_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_split('data/reid_tiny', train_people=4, images_each=8, test_people=3, distractors=4)
    options = {
        'train_cfg.max_epochs': 1,
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
    }
    train(str(FOLDER / f'{TINY}.py'), 'work', cfg_options=options)
    arguments = ['work/epoch_1.pth', '--data', 'data/reid_tiny', '--out', 'out']
    assert main(['reid', 'eval', *arguments]) == 0
    figures = json.loads(Path('out/figures.json').read_text())
    found = {figure['metric']: figure for figure in figures}
    assert found['rank-1 (%)']['queries'] == 3
    assert 100 / 7 <= found['mAP (%)']['value'] <= 100  # seven gallery images

    features = read_features('out/reid.safetensors')
    cfg = Config.fromfile(FOLDER / f'{TINY}.py').model.backbone
    paths = [f'data/reid_tiny/sysu_test_set_all/{path}' for path in features.paths]
    expected = plain_features(paths, read_checkpoint('work/epoch_1.pth')['state_dict'], cfg)
    np.testing.assert_allclose(features.features, expected, atol=1e-5)
