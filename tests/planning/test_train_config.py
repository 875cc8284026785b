from dataclasses import replace
from pathlib import Path

import pytest

from ttl_mm.checkpoint.input_settings import _sizes as sizes_of
from ttl_mm.models.backbones import find_backbone
from ttl_mm.planning.train_config import pixel_share, read_train_recipe, train_config
from ttl_mm.planning.train_plan import TrainPlan
from ttl_mm.planning.view_growth import SMALL

PLAN = TrainPlan(1040, 'resnet34', 64, ranks=2, batch=52, workers=3, steps=500)


def adapted(plan=PLAN, recipe=None, **files):
    return train_config(plan, recipe or read_train_recipe(), Path('a'), Path('a.txt'), **files)


def test_the_recipe_gets_the_numbers_of_the_plan():
    cfg, recipe = adapted(), read_train_recipe()
    assert (cfg.model.backbone.depth, cfg.model.neck.in_channels) == (34, 512)
    loader = cfg.train_dataloader
    assert (loader.batch_size, loader.num_workers, loader.dataset.list_file) == (52, 3, 'a.txt')
    views = loader.dataset.pipeline[0].views
    assert {view.size for view in views} == {64}
    assert cfg.train_cfg.max_epochs == 50  # of ten steps each
    assert cfg.optim_wrapper.optimizer.lr == recipe.optim_wrapper.optimizer.lr  # 2 x 52 = 104
    half = adapted(replace(PLAN, batch=26))
    assert half.optim_wrapper.optimizer.lr == recipe.optim_wrapper.optimizer.lr / 2
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
    share = pixel_share(recipe, find_backbone('resnet18'))
    assert share == pytest.approx(0.5 * 0.25 + 0.4 * 0.5625 + 0.1)
    assert pixel_share(recipe, find_backbone('resnet18')._replace(one_size=True)) == 1
    plan = replace(PLAN, pixel_share=0.5)
    assert PLAN.seconds() - plan.seconds() == pytest.approx(250)  # steps of a second


def test_images_in_memory_and_the_rate_of_muon():
    step = adapted(replace(PLAN, edge=96)).train_dataloader.dataset.pipeline[0]
    assert step.in_memory == 96
    assert not adapted().train_dataloader.dataset.pipeline[0].get('in_memory')
    recipe = read_train_recipe()
    for kind, rates in (('ttl_mm.Muon', (0.2, 0.4, 0.4)), ('SGD', (0.2, 0.4, 0.8))):
        recipe.optim_wrapper.optimizer = dict(type=kind, lr=0.4)
        for batch, rate in zip((26, 52, 104), rates):  # of two ranks, the recipe's is 104
            cfg = adapted(replace(PLAN, batch=batch), recipe)
            assert cfg.optim_wrapper.optimizer.lr == pytest.approx(rate)


def test_views_grow_as_the_plan_says():
    growth = ((0.0, 0.5), (0.4, 0.75), (0.8, 1.0))
    cfg = adapted(replace(PLAN, growth=growth))  # 50 epochs, 64 px
    for view in cfg.train_dataloader.dataset.pipeline[0].views:
        assert (view.size, view.later_sizes) == (32, ((20, 48), (40, 64)))
    for steps, epochs in ((500, 50), (4, 1), (503, 51)):  # ten steps an epoch
        small = adapted(replace(PLAN, growth=SMALL, steps=steps, limit=9.0)).train_dataloader
        view = small.dataset.pipeline[0].views[0]
        assert (view.size, view.later_sizes) == (48, ((epochs, 64),))  # never reached
    assert max(sizes_of(small.dataset)) == 64  # which an evaluation takes
