from mmengine.config import Config
from torch import nn

from tests.helpers.paths import ROOT
from ttl_mm.models import TruncatedTripletHead
from ttl_mm.planning import default_recipe, make_plan, read_recipe, write_config

SCHEDULE = """param_scheduler = [
    dict(type='LinearLR', begin=0, end=10),
    dict(type='CosineAnnealingLR', begin=10, end=200, T_max=190)]"""


def test_all_that_is_counted_in_epochs_grows_with_the_run(tmp_path):
    recipe = tmp_path / 'recipe.py'
    recipe.write_text(f'_base_ = {str(default_recipe())!r}\n{SCHEDULE}')
    for epochs, first, rest in ((700, 35, 665), (50, 2, 48), (5, 1, 5)):  # 2.5 epochs are 2
        plan = make_plan(1_281_167, 1000, 8, recipe=read_recipe(recipe), epochs=epochs)
        config = Config.fromfile(write_config(plan, recipe, tmp_path / f'{epochs}.py'))
        warm_up, cosine = config.param_scheduler
        horizon = config.default_hooks.target_update.horizon_epochs
        assert (warm_up.begin, warm_up.end, cosine.begin) == (0, first, first)
        assert (cosine.end, cosine.T_max, horizon) == (epochs, rest, epochs)


def test_a_plan_of_every_recipe_is_the_recipe_with_other_numbers(tmp_path):
    for path in sorted((ROOT / 'configs').rglob('ttl_*_*e.py')):
        base, out = Config.fromfile(path), tmp_path / path.name
        if base.model.target_momentum is None:
            continue  # read_recipe refuses it
        recipe = read_recipe(path)
        plan = make_plan(1200, 10, recipe=recipe, largest_batch=24, k=7)
        config = Config.fromfile(write_config(plan, path, out))
        assert read_recipe(out) == plan.recipe != recipe, path
        assert config.model.backbone == base.model.backbone
        assert config.train_dataloader.dataset == base.train_dataloader.dataset
        assert config.param_scheduler == base.param_scheduler  # as many epochs as the recipe
        assert config.default_hooks.target_update == base.default_hooks.target_update
        head = {**config.model.head, 'predictor': nn.Identity()}
        assert head.pop('type') == 'ttl_mm.TruncatedTripletHead'
        assert TruncatedTripletHead(**head).deputy == 7
