import pytest
from mmengine.config import Config
from torch import nn

from tests.helpers.paths import ROOT
from ttl_mm.models import TruncatedTripletHead
from ttl_mm.planning import default_recipe, make_plan, read_recipe, write_config

RECIPES = sorted((ROOT / 'configs').rglob('ttl_*_*e.py'))
SCHEDULE = """
param_scheduler = [
    dict(type='LinearLR', begin=0, end=10),
    dict(type='CosineAnnealingLR', begin=10, end=200, T_max=190),
]
"""


def test_all_that_is_counted_in_epochs_grows_with_the_run(tmp_path):
    recipe = tmp_path / 'recipe.py'
    recipe.write_text(f'_base_ = {str(default_recipe())!r}\n{SCHEDULE}')
    for epochs, expected in ((700, [0, 35, 35, 700, 665, 700]), (5, [0, 1, 1, 5, 5, 5])):
        plan = make_plan(1_281_167, 1000, 8, recipe=read_recipe(recipe), epochs=epochs)
        config = Config.fromfile(write_config(plan, recipe, tmp_path / f'{epochs}.py'))
        warm_up, cosine = config.param_scheduler
        horizon = config.default_hooks.target_update.horizon_epochs
        ends = [warm_up.begin, warm_up.end, cosine.begin, cosine.end, cosine.T_max, horizon]
        assert ends == expected


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


@pytest.mark.parametrize('recipe', RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_planned(recipe, tmp_path):
    plan = make_plan(1200, 10, recipe=read_recipe(recipe), k=7)
    config = Config.fromfile(write_config(plan, recipe, tmp_path / 'plan.py'))
    base, head = Config.fromfile(recipe), config.model.head
    assert config.param_scheduler == base.param_scheduler  # as many epochs as the recipe
    assert config.default_hooks.target_update == base.default_hooks.target_update
    head.pop('type')
    head.predictor = nn.Identity()
    assert TruncatedTripletHead(**head).deputy == 7
