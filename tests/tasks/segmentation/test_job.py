"""``ttl segment train`` and ``ttl segment run`` end to end at tiny size, interrupted too."""

import json
import resource
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate

from tests.helpers.checkpoints import assert_bit_equal, make_resnet
from tests.helpers.finetuning import (
    assert_config_out,
    assert_continues,
    assert_keeps_its_images,
    assert_nothing_again,
    plans,
    write_weights,
)
from tests.helpers.mask_data import write_voc_masks
from tests.helpers.paths import ROOT
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.engine.runner.config_check import check_arguments
from ttl_mm.errors import UserError
from ttl_mm.finetuning.resnet import open_backbone
from ttl_mm.finetuning.schedule import Schedule
from ttl_mm.registry import MODELS
from ttl_mm.tasks.segmentation.own_config import training_config
from ttl_mm.tasks.segmentation.segmenter import Segmenter
from ttl_mm.tasks.segmentation.transforms import PackMasked, RandomPatch

SMALL = ['--size', '48', '--epochs', '3', '--batch-size', '2', '--workers', '0']


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp('weights'))


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return write_voc_masks(tmp_path_factory.mktemp('data') / 'shapes', {'train': 4, 'val': 2})


@pytest.fixture(scope='module')
def line(data, weights, tmp_path_factory):
    out = tmp_path_factory.mktemp('jobs') / 'first'
    return ['segment', 'train', str(data), '--weights', str(weights), *SMALL, '--out', str(out)]


@pytest.fixture(scope='module')
def finished(line, forked):
    """The folder of a finished job with its baseline."""
    assert main(line) == 0
    return Path(line[-1])


def test_masks_become_a_network_tables_and_a_page(finished):
    figures = json.loads((finished / 'figures.json').read_text())
    assert figures.keys() == {'pre-trained', 'random'}
    for found in figures.values():
        assert found['classes'].keys() == {'ground', 'blue', 'green'}
        assert 0 <= found['mIoU'] <= 1
    page = (finished / 'page/index.html').read_text()
    for words in ('Intersection over union', 'ground', 'random', 'Worst images'):
        assert words in page
    assert not list(finished.glob('runs/*/epoch_*.pth'))


def test_both_starts_have_the_same_budget_and_only_one_the_weights(finished, weights):
    ours, theirs = plans(finished, weights)
    assert ours == theirs


def test_the_same_line_again_trains_nothing_and_another_is_refused(finished, line, capsys):
    assert_nothing_again(line, capsys)


def test_an_interrupted_job_is_continued_by_the_same_line(finished, line, tmp_path, capsys):
    assert_continues(line, tmp_path / 'second', 2, 'segmenter.pth', capsys)


def test_images_get_masks_of_their_size_and_pictures(finished, data, tmp_path, capsys):
    (tmp_path / 'more').mkdir()
    (tmp_path / 'more/broken.jpg').write_bytes(b'<html>')
    line = ['segment', 'run', str(data / 'JPEGImages'), str(tmp_path / 'more'), '--pictures', '1']
    line += ['--weights', str(finished / 'segmenter.pth'), '--out', str(tmp_path / 'found')]
    assert main(line) == 0
    assert 'left out 1 image that cannot be read: ' in capsys.readouterr().out
    masks = sorted((tmp_path / 'found/masks').iterdir())
    assert len(masks) == 6
    for path in masks:
        mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        assert mask.shape == (64, 72)
        assert mask.max() < 3
    assert len(list((tmp_path / 'found/pictures').iterdir())) == 1
    assert (tmp_path / 'found/classes.txt').read_text() == 'ground\nblue\ngreen\n'


def test_config_out_writes_the_config_that_would_be_trained(finished, line, tmp_path, capsys):
    assert_config_out(line, tmp_path / 'mine.py', capsys)


def test_the_network_starts_from_the_weights_and_learns_a_patch_by_heart(weights, data):
    backbone = open_backbone(str(weights))
    cfg = training_config(backbone, data, 3, images=4, size=48, schedule=Schedule(workers=0))
    check_arguments(cfg)
    torch.manual_seed(0)
    cfg.model.norm_cfg.type = cfg.model.backbone.norm_cfg.type = 'BN'
    model = MODELS.build(cfg.model)
    model.init_weights()
    assert_bit_equal(dict(model.backbone.state_dict()), load_backbone_state(weights))
    image = np.zeros((48, 48, 3), np.uint8)
    image[:, 24:] = 250
    mask = np.zeros((48, 48), np.uint8)
    mask[:, 24:], mask[:4] = 2, 255
    packed = PackMasked()({'img_path': '', 'img': image, 'mask': mask})
    batch = model.data_preprocessor(pseudo_collate([packed, packed]), training=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model(**batch, mode='loss')['loss']
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    model.eval()
    (found, _) = model(**batch, mode='predict')
    assert (found.found.numpy() == mask)[4:].mean() > 0.9


def test_the_recipe_is_that_of_moco_and_fitted_to_few_images(tmp_path, data):
    path = tmp_path / 'r50.pth'
    torch.save({'state_dict': make_resnet(50).state_dict()}, path)
    cfg = training_config(open_backbone(str(path)), data, 21, 1464, schedule=Schedule(None, 16))
    recipe = read_config(ROOT / 'projects/segmentation/configs/fcn_r50_voc_50e.py')
    model = cfg.model.to_dict()
    assert model['backbone'].pop('init_cfg')['checkpoint'] == str(path)
    theirs = recipe.model.to_dict()
    del theirs['backbone']['init_cfg']
    assert model == theirs
    assert cfg.train_cfg.max_epochs == 50
    assert cfg.param_scheduler[0].milestones == [35, 45]
    assert cfg.optim_wrapper.optimizer.lr == 0.003
    few = training_config(open_backbone(str(path)), data, 21, 8)
    assert few.train_cfg.max_epochs == 200
    assert few.param_scheduler[0].milestones == [140, 180]
    assert few.optim_wrapper.optimizer.lr == pytest.approx(0.003 / 4)


def test_patches_are_cut_from_image_and_mask_alike():
    image = np.repeat(np.arange(40, dtype=np.uint8)[:, None], 50, 1)
    for seed in range(20):
        results = {'img': image[..., None].repeat(3, 2), 'mask': image.copy()}
        results['rng'] = np.random.default_rng(seed)
        patch = RandomPatch(32, (0.5, 2.0))(results)
        assert patch['img'].shape == (32, 32, 3)
        known = patch['mask'] != 255
        assert known.any()
        difference = patch['img'][..., 0].astype(int) - patch['mask']
        assert abs(difference[known]).max() <= 2  # rows of the same number
        assert not patch['img'][~known].any()


@pytest.mark.parametrize('meta', [{}, {'segmenter': 'unet', 'classes': ['a'], 'backbone': {},
    'input': {'size': 64, 'mean': [1, 1, 1], 'std': [1, 1, 1]}}])  # fmt: skip
def test_a_file_that_is_no_segmentation_network_is_refused(meta, tmp_path):
    path = tmp_path / 'x.pth'
    torch.save({'state_dict': {}, 'meta': meta}, path)
    with pytest.raises(UserError, match='name the segmenter'):
        Segmenter(path)


def test_a_small_file_that_promises_a_huge_network_is_refused_before_it_is_built(tmp_path):
    path = tmp_path / 'x.pth'
    huge = {'type': 'mmpretrain.ResNet', 'depth': 152, 'base_channels': 4000}
    meta = {'segmenter': 'fcn', 'classes': ['a'], 'backbone': huge,
            'input': {'size': 64, 'mean': [1, 1, 1], 'std': [1, 1, 1]}}  # fmt: skip
    torch.save({'state_dict': {'backbone.conv1.weight': torch.ones(1)}, 'meta': meta}, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match='instead of'):
        Segmenter(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_a_job_is_not_continued_on_other_images(data, line, tmp_path, capsys):
    copy = shutil.copytree(data, tmp_path / 'copy')
    line = [*line[:2], str(copy), *line[3:-1], str(tmp_path / 'x')]
    fewer = copy / 'ImageSets/Segmentation/val.txt'
    assert_keeps_its_images(line, lambda: fewer.write_text('val0\n'), capsys)
