from dataclasses import replace
from pathlib import Path

import pytest

from ttl_mm.planning.train_config import pixel_share, read_train_recipe, train_config
from ttl_mm.planning.train_plan import TrainPlan

PLAN = TrainPlan(1040, 'resnet34', 64, ranks=2, batch=52, workers=3, steps=500)


def adapted(plan=PLAN, recipe=None, **files):
    return train_config(plan, recipe or read_train_recipe(), Path('a'), Path('a.txt'), **files)


def test_the_recipe_gets_the_numbers_of_the_plan():
    cfg, recipe = adapted(), read_train_recipe()
    assert (cfg.model.backbone.depth, cfg.model.neck.in_channels) == (34, 512)
    loader = cfg.train_dataloader
    assert (loader.batch_size, loader.num_workers, loader.dataset.list_file) == (52, 3, 'a.txt')
    assert {view.size for view in loader.dataset.pipeline[0].views} == {64}
    assert cfg.train_cfg.max_epochs == 50  # of ten steps each
    assert cfg.optim_wrapper.optimizer.lr == recipe.optim_wrapper.optimizer.lr  # 2 x 52 = 104
    double = adapted(replace(PLAN, batch=104))
    assert double.optim_wrapper.optimizer.lr == 2 * recipe.optim_wrapper.optimizer.lr
    assert [s.end for s in cfg.param_scheduler] == [25, 500]
    assert not any(s.by_epoch for s in cfg.param_scheduler)
    in_time = adapted(replace(PLAN, limit=99.0, steps=77))
    assert in_time.default_hooks.time_limit.seconds == 99
    assert 'time_limit' not in cfg.default_hooks
    assert (in_time.train_cfg.max_iters, in_time.default_hooks.checkpoint.interval) == (77, 77)


def test_ranks_that_a_small_batch_does_not_have_are_cut():
    assert adapted(replace(PLAN, batch=8, images=100)).model.head.deputy == (1, 14)


def test_views_that_grow_keep_their_schedule_and_a_trial_has_the_largest():
    recipe = read_train_recipe()
    for view in recipe.train_dataloader.dataset.pipeline[0].views:
        view.size, view.later_sizes = 48, ((50, 72), (90, 96))  # of 100 epochs
    for steps, size, later in ((500, 32, ((25, 48), (45, 64))), (1, 64, ())):
        (views, _) = adapted(replace(PLAN, steps=steps), recipe).train_dataloader.dataset.pipeline
        assert [(view.size, view.later_sizes) for view in views.views] == [(size, later)] * 2
    assert pixel_share(recipe) == pytest.approx(0.5 * 0.25 + 0.4 * 0.5625 + 0.1)
    assert pixel_share(read_train_recipe()) == 1
    plan = replace(PLAN, pixel_share=0.5)
    assert PLAN.seconds() - plan.seconds() == pytest.approx(250)  # steps of a second


def test_images_in_memory_and_the_rate_of_muon():
    step = adapted(replace(PLAN, edge=96)).train_dataloader.dataset.pipeline[0]
    assert step.in_memory == 96
    assert not adapted().train_dataloader.dataset.pipeline[0].get('in_memory')
    recipe = read_train_recipe()
    recipe.optim_wrapper.optimizer = dict(type='ttl_mm.Muon', lr=0.4)
    for batch, rate in ((26, 0.2), (52, 0.4), (208, 0.4)):  # of two ranks, the recipe's is 104
        cfg = adapted(replace(PLAN, batch=batch), recipe)
        assert cfg.optim_wrapper.optimizer.lr == pytest.approx(rate)
