import logging

from mmengine.logging import MMLogger
from mmengine.optim import build_optim_wrapper
from torch import nn

import ttl_mm.engine  # noqa: F401

SETTINGS = dict(
    optimizer=dict(type='ttl_mm.LARS', lr=0.1, weight_decay=1e-4),
    paramwise_cfg=dict(
        custom_keys=dict(bn=dict(decay_mult=0, lars_exclude=True), bias=dict(lars_exclude=True))
    ),
)


def network():
    model = nn.Sequential()
    model.online = nn.Sequential()
    model.online.fc = nn.Linear(3, 4)
    model.online.bn = nn.BatchNorm1d(4)
    model.target = nn.Linear(3, 4).requires_grad_(False)
    return model


def test_groups_are_those_of_mmengine():
    model = network()
    ours = build_optim_wrapper(model, dict(SETTINGS, constructor='ttl_mm.OptimWrapperConstructor'))
    theirs = build_optim_wrapper(model, dict(SETTINGS))
    assert len(theirs.optimizer.param_groups) == 4
    assert ours.optimizer.state_dict() == theirs.optimizer.state_dict()
    assert [id(g['params'][0]) for g in ours.param_groups[:4]] == [
        id(g['params'][0]) for g in theirs.param_groups[:4]
    ]


def test_log_has_a_line_per_kind(caplog):
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(caplog.handler)
    build_optim_wrapper(network(), dict(SETTINGS, constructor='ttl_mm.OptimWrapperConstructor'))
    logger.removeHandler(caplog.handler)
    assert logger.level == logging.INFO
    logger.setLevel(level)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(':')[1] for line in lines] == [
        ' 1 tensors, 12 parameters',
        ' 2 tensors, 8 parameters',  # a bias of either layer
        ' 1 tensors, 4 parameters',
    ]
