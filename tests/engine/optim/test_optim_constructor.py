import logging

from mmengine.logging import MMLogger
from mmengine.optim import build_optim_wrapper
from torch import nn

import ttl_mm.engine  # noqa: F401

KEYS = dict(bn=dict(decay_mult=0, lars_exclude=True), bias=dict(lars_exclude=True))
SETTINGS = dict(
    optimizer=dict(type='ttl_mm.LARS', lr=0.1, weight_decay=1e-4),
    paramwise_cfg=dict(custom_keys=KEYS),
)


def test_groups_are_those_of_mmengine_and_the_log_has_a_line_per_kind(caplog):
    online = nn.ModuleDict({'fc': nn.Linear(3, 4), 'bn': nn.BatchNorm1d(4)})
    target = nn.Linear(3, 4).requires_grad_(False)
    model = nn.ModuleDict({'online': online, 'target': target})
    theirs = build_optim_wrapper(model, dict(SETTINGS))
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(caplog.handler)
    ours = build_optim_wrapper(model, dict(SETTINGS, constructor='ttl_mm.OptimWrapperConstructor'))
    logger.removeHandler(caplog.handler)
    assert logger.level == logging.INFO
    logger.setLevel(level)
    assert len(theirs.optimizer.param_groups) == 4
    assert ours.optimizer.state_dict() == theirs.optimizer.state_dict()
    first, second = ([id(g['params'][0]) for g in w.param_groups[:4]] for w in (ours, theirs))
    assert first == second
    assert [record.getMessage().split(':')[1] for record in caplog.records] == [
        ' 1 tensor, 12 parameters',
        ' 2 tensors, 8 parameters',  # a bias of either layer
        ' 1 tensor, 4 parameters',
    ]
