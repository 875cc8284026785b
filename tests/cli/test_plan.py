import re

import numpy as np
import pytest
from mmengine.config import Config
from PIL import Image
from torch import nn

from tests.helpers.paths import ROOT
from ttl_mm.cli import main
from ttl_mm.engine.runner.launch import train
from ttl_mm.models import TruncatedTripletHead
from ttl_mm.planning import default_recipe, make_plan, read_recipe, write_config

CONFIGS = ROOT / 'configs'
SMALL_NETWORK = {
    'model.backbone': {'type': 'ResNet_CIFAR', 'depth': 18, 'base_channels': 4, 'stem_channels': 4},
    'model.neck.in_channels': 32,
    'model.neck.hid_channels': 16,
    'model.neck.out_channels': 8,
    'model.head.predictor.in_channels': 8,
    'model.head.predictor.hid_channels': 16,
    'model.head.predictor.out_channels': 8,
    'model.online_sizes': (16, 16),
    'model.target_sizes': (16, 16),
    'train_dataloader.num_workers': 0,
    'train_dataloader.persistent_workers': False,
    'log_level': 'ERROR',
}


@pytest.fixture
def folder(tmp_path):
    """Two classes of 12 small images."""
    rng = np.random.default_rng(0)
    for name in ('cat', 'dog'):
        (tmp_path / 'images' / name).mkdir(parents=True)
        for i in range(12):
            pixels = rng.integers(256, size=(20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / 'images' / name / f'{i}.png')
    return tmp_path / 'images'


def test_a_planned_config_trains_two_steps_on_a_folder(folder, tmp_path, capsys):
    out = tmp_path / 'plan' / 'mine.py'
    arguments = ['--data', str(folder), '--labeled', '--epochs', '1', '--out', str(out)]
    assert main(['plan', *arguments, '--k', '5']) == 0
    assert str(out) in capsys.readouterr().out
    config = Config.fromfile(out)
    assert config.train_dataloader.batch_size == 24  # all there are
    options = {
        **SMALL_NETWORK,
        'train_dataloader.batch_size': 12,
        'default_hooks.logger.interval': 1,
    }
    train(str(out), work_dir=str(tmp_path / 'run'), cfg_options=options)
    (log,) = (tmp_path / 'run').glob('*/vis_data/scalars.json')
    lines = log.read_text().splitlines()
    assert sum('"loss"' in line for line in lines) == 2
    assert 'gauge/class_divergence' in lines[-1]


def test_a_planned_config_is_its_recipe_with_other_numbers(tmp_path):
    recipe = default_recipe()
    plan = make_plan(100_000, 100, 2, largest_batch=64, recipe=read_recipe(recipe), epochs=50)
    config = Config.fromfile(write_config(plan, recipe, tmp_path / 'plan.py'))
    base = Config.fromfile(recipe)
    assert config.model.backbone == base.model.backbone
    assert config.train_dataloader.dataset == base.train_dataloader.dataset
    assert config.model.head.deputy == plan.k
    assert read_recipe(tmp_path / 'plan.py') == plan.recipe
    assert [s['end'] for s in config.param_scheduler] == [2, 50]  # a warm-up of 10 of 200 epochs
    assert config.default_hooks.target_update.horizon_epochs == 50


@pytest.mark.parametrize('recipe', sorted(CONFIGS.rglob('ttl_*_*e.py')), ids=lambda path: path.stem)
def test_every_recipe_can_be_planned(recipe, tmp_path):
    plan = make_plan(1200, 10, recipe=read_recipe(recipe), k=7)
    config = Config.fromfile(write_config(plan, recipe, tmp_path / 'plan.py'))
    base, head = Config.fromfile(recipe), config.model.head
    assert config.param_scheduler == base.param_scheduler  # as many epochs as the recipe
    assert config.default_hooks.target_update == base.default_hooks.target_update
    head.pop('type')
    head.predictor = nn.Identity()
    assert TruncatedTripletHead(**head).deputy == 7


def test_the_plan_of_the_papers_hardware_prints_both_sides_of_k(tmp_path, capsys):
    out = str(tmp_path / 'plan.py')
    assert (
        main(['plan', '--images', '1281167', '--classes', '1000', '--gpus', '8', '--out', out]) == 0
    )
    printed = capsys.readouterr().out
    assert '8.1e-08' in printed  # rank 5, from above
    assert f'tools/dist_train.sh {out} 8' in printed


def test_memory_limits_the_batch_by_the_recipes_own_network(tmp_path, capsys):
    (digits,) = CONFIGS.rglob('ttl*_digits_*.py')
    facts = ['--images', '1200', '--classes', '10', '--config', str(digits)]
    assert main(['plan', *facts, '--memory', '0.80', '--out', str(tmp_path / 'plan.py')]) == 0
    (fits,) = re.findall(r'^(\d+) images fit into 0.8 GB', capsys.readouterr().out, re.MULTILINE)
    assert Config.fromfile(tmp_path / 'plan.py').train_dataloader.batch_size == int(fits) < 32


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ([], 'number of images is missing'),
        (['--images', '100'], 'number of classes is missing'),
        (['--images', '100', '--classes', '5', '--config', 'nowhere.py'], 'nowhere.py does not'),
    ],
)
def test_missing_facts_are_asked_for(arguments, message, tmp_path, capsys):
    assert main(['plan', *arguments, '--out', str(tmp_path / 'plan.py')]) == 2
    assert message in capsys.readouterr().err


def test_an_existing_file_is_not_overwritten(tmp_path, capsys):
    out = tmp_path / 'plan.py'
    out.write_text('mine')
    assert main(['plan', '--images', '1000', '--classes', '10', '--out', str(out)]) == 2
    assert 'exists' in capsys.readouterr().err
    assert out.read_text() == 'mine'
