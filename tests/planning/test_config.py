from mmengine.config import Config

from ttl_mm.planning import default_recipe, make_plan, read_recipe, write_config

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
