import copy
import logging

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.model import BaseModule
from mmengine.optim import OptimWrapper
from mmengine.registry import Registry
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner
from torch import nn

from ttl_mm.compat import mmengine_private as private


def make_optim_wrapper(counts: int) -> OptimWrapper:
    weight = nn.Parameter(torch.ones(1))
    return OptimWrapper(torch.optim.SGD([weight], lr=0.1), accumulative_counts=counts)


def test_accumulative_counts():
    assert private.accumulative_counts(make_optim_wrapper(3)) == 3
    assert private.accumulative_counts(object()) == 1
    wrapper = make_optim_wrapper(3)
    private.set_accumulation(wrapper, 5)
    assert private.accumulative_counts(wrapper) == 5


def test_parts_of_an_iteration_are_counted_as_backward_passes():
    """Two passes an iteration, a step every three iterations, and one after the last of seven."""
    wrapper = make_optim_wrapper(3)
    (weight,) = wrapper.optimizer.param_groups[0]['params']
    wrapper.initialize_count_status(nn.Linear(1, 1), 3, 7)
    private.count_parts(wrapper, 2)
    assert private.accumulative_counts(wrapper) == 3
    values = []
    for _ in range(8):  # iterations 4 to 7
        wrapper.update_params(weight.sum())
        values.append(round(float(weight.detach()), 4))
    assert values == [1.0] * 5 + [0.9, 0.9, 0.8]  # every step has the mean gradient, 1


def test_built_train_loop(tmp_path):
    loop = dict(train_dataloader={}, train_cfg={'by_epoch': True})
    optimizer = {'optimizer': {'type': 'SGD', 'lr': 0.1}}
    runner = Runner(nn.Linear(1, 1), str(tmp_path), optim_wrapper=optimizer, **loop)
    assert private.built_train_loop(runner) is None
    runner._train_loop = loop = object()
    assert private.built_train_loop(runner) is loop


def test_an_unformatted_config_is_not_given_to_yapf(tmp_path):
    (tmp_path / 'config.py').write_text('a = dict(b=1, c=(2,))')
    config = Config.fromfile(tmp_path / 'config.py')
    assert config.pretty_text == 'a = dict(b=1, c=(2, ))\n'
    private.leave_unformatted(config)
    assert copy.deepcopy(config).pretty_text == 'a=dict(\n    b=1,\n    c=(\n        2,\n        ))'


def test_marked_registry_imports_no_location():
    registry = Registry('part', scope='nowhere', locations=['ttl_mm.no_such_module'])
    private.mark_as_imported(registry)
    assert registry.get('Missing') is None


def test_initialize_again_draws_other_weights():
    module = BaseModule(init_cfg={'type': 'Normal', 'layer': 'Linear', 'std': 1.0})
    module.inner = nn.Linear(2, 2)
    module.init_weights()
    before = module.inner.weight.clone()
    private.initialize_again(module)
    assert not module.inner.weight.equal(before)


def test_only_the_warning_of_lost_gradients_is_silenced(caplog):
    """Fails when mmengine words it differently: then change GRADIENTS_LOST."""
    logger = MMLogger.get_instance('lost_gradients')
    logger.addHandler(caplog.handler)
    logger.setLevel(logging.INFO)
    make_optim_wrapper(3).initialize_count_status(nn.Linear(1, 1), 1, 9)
    assert private.GRADIENTS_LOST in caplog.text
    caplog.clear()
    resumed = make_optim_wrapper(3)
    private.silence_lost_gradients(resumed)
    resumed.initialize_count_status(nn.BatchNorm1d(1), 1, 9)
    assert private.GRADIENTS_LOST not in caplog.text
    assert 'BatchNorm' in caplog.text
    resumed.initialize_count_status(nn.Linear(1, 1), 1, 9)
    assert private.GRADIENTS_LOST in caplog.text  # once only
    logger.removeHandler(caplog.handler)


def test_names_that_our_loops_and_runner_inherit():
    for kind in (EpochBasedTrainLoop, IterBasedTrainLoop):
        used = kind.__init__.__code__.co_names
        assert {'_epoch', '_iter', '_max_epochs', '_max_iters'} <= set(used)
        assert callable(kind._decide_current_val_interval)
    used = set(Runner.__init__.__code__.co_names)
    assert {'_train_loop', '_load_from', '_resume', '_has_loaded', '_train_dataloader'} <= used
