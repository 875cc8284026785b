"""Typing errors inside a config, before anything is built."""

from copy import deepcopy

import pytest

from tests.helpers.paths import RECIPES, ROOT
from ttl_mm.config import merge_options, read_config
from ttl_mm.engine.runner.config_check import check_arguments
from ttl_mm.errors import UserError

MAIN = ROOT / 'configs/ttl_r50_8xb104_200e.py'


@pytest.fixture(scope='module')
def refused():
    """A function that changes the main recipe; returns why it is refused."""
    recipe = read_config(MAIN)

    def check(option, value):
        config = deepcopy(recipe)
        merge_options(config, {option: value})
        with pytest.raises(UserError) as error:
            check_arguments(config)
        return str(error.value)

    return check


@pytest.mark.parametrize(
    ('option', 'value', 'why'),
    [
        ('+train_dataloader.batch_sise', 8, "Did you mean 'batch_size'?"),
        ('+train_dataloader.dataset.data_rot', 'x', "Did you mean 'data_root'?"),
        ('+model.backbone.dept', 18, "ResNet takes no 'dept'. Did you mean 'depth'?"),
        ('+model.head.deputty', 3, "Did you mean 'deputy'?"),
        ('+optim_wrapper.optimizer.lrr', 3, "Did you mean 'lr'?"),
        ('+default_hooks.checkpoint.intervall', 3, "Did you mean 'interval'?"),
        ('+param_scheduler.0.T_maxx', 3, 'takes no'),
        ('train_dataloader.batch_size', '8', 'a whole number of at least 1'),
        ('train_dataloader.batch_size', 0, 'at least 1'),
        ('train_dataloader.num_workers', -1, 'at least 0'),
        ('train_cfg.max_epochs', 0, 'at least 1'),
        ('train_cfg.max_epochs', -3, 'at least 1'),
        ('train_cfg.max_epochs', 2.5, 'a whole number'),
        ('model.target_momentum', 'high', 'a number is needed'),
        ('optim_wrapper.optimizer.lr', 'fast', 'a number is needed'),
        ('model.head.type', 'TruncatedTripletHead', "'ttl_mm.TruncatedTripletHead': write that"),
        ('train_dataloader.sampler.type', 'EpochSampler', "'ttl_mm.EpochSampler': write that"),
    ],
)
def test_the_nearest_argument_is_named(refused, option, value, why):
    message = refused(option, value)
    assert message.startswith(option.removeprefix('+'))
    assert why in message


SOME = {path.parent: path for path in RECIPES}.values()  # one of every folder


@pytest.mark.parametrize('path', SOME, ids=lambda path: path.stem)
def test_no_recipe_is_refused(path):
    check_arguments(read_config(path))


@pytest.mark.faults
@pytest.mark.parametrize('path', RECIPES, ids=lambda path: path.stem)
def test_none_of_all_recipes_is_refused(path):
    check_arguments(read_config(path))
