"""LARS against mmpretrain's and against its formula."""

import io

import pytest
import torch
from mmpretrain.engine.optimizers import LARS as MMPretrainLARS
from torch.utils._python_dispatch import TorchDispatchMode

from ttl_mm.engine import LARS
from ttl_mm.errors import UserError

SETTINGS = dict(lr=0.8, momentum=0.9, weight_decay=1e-2)


def groups(seed=0, dtype=torch.float64):
    """One group per tensor as mmengine makes them: adapted, excluded, without decay, all zero."""
    generator = torch.Generator().manual_seed(seed)

    def parameter(*shape):
        return torch.nn.Parameter(torch.randn(*shape, dtype=dtype, generator=generator))

    return [
        dict(params=[parameter(8, 5)]),
        dict(params=[parameter(6, 3, 2)]),
        dict(params=[parameter(7)], lars_exclude=True, weight_decay=0.0),
        dict(params=[parameter(9, 2)], weight_decay=0.0, lr=0.3),
        dict(params=[torch.nn.Parameter(torch.zeros(4, dtype=dtype))]),
    ]


def give_gradients(optimizer, step):
    """Random gradients; in some steps none, or zero, for some tensors."""
    for i, group in enumerate(optimizer.param_groups):
        generator = torch.Generator().manual_seed(1000 * step + i)
        parameter = group['params'][0]
        scale = 0.0 if step % 7 == 3 and i == 1 else 1.0
        grad = scale * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
        parameter.grad = None if step % 5 == 2 and i in (0, 2) else grad


def train(steps, *optimizers):
    for step in steps:
        for optimizer in optimizers:
            give_gradients(optimizer, step)
            optimizer.step()


def tensors(optimizer):
    return [group['params'][0].detach() for group in optimizer.param_groups]


def assert_close(ours, theirs, **tolerances):
    for found, expected in zip(tensors(ours), tensors(theirs)):
        torch.testing.assert_close(found, expected, **tolerances)


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_trajectory_of_mmpretrain(dtype):
    for options in ({}, {'momentum': 0.0}, {'nesterov': True}, {'dampening': 0.1}, {'eta': 0.02}):
        settings = {**SETTINGS, **options}
        ours, theirs = (kind(groups(dtype=dtype), **settings) for kind in (LARS, MMPretrainLARS))
        train(range(50), ours, theirs)
        assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_first_step_by_the_formula_and_the_loss_of_the_closure_comes_back():
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    weight.grad = torch.tensor([0.0, 2.0])
    optimizer = LARS([weight], lr=0.5, weight_decay=0.1, eta=0.01, eps=0.0)
    assert optimizer.step(lambda: 5.0) == 5.0
    rate = 0.5 * 0.01 * 5 / (2 + 0.1 * 5)
    expected = torch.tensor([3 - rate * 0.3, 4 - rate * 2.4])
    torch.testing.assert_close(weight.detach(), expected)


@pytest.mark.parametrize(('kind', 'bits'), [(LARS, {'rtol': 0, 'atol': 0}), (MMPretrainLARS, {})])
def test_takes_over_a_saved_state_of_its_own_and_of_mmpretrain(kind, bits):
    first, second = kind(groups(), **SETTINGS), LARS(groups(seed=1), lr=0.1)
    train(range(4), first)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for parameter, value in zip(tensors(second), tensors(first)):
        parameter.copy_(value)
    train(range(4, 8), first, second)
    assert_close(second, first, **bits)


class NoSync(TorchDispatchMode):
    """Refuse what makes the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in ('_local_scalar_dense', 'nonzero', 'is_nonzero', 'equal'), name
        return func(*args, **(kwargs or {}))


def test_step_has_no_sync():
    with NoSync():
        train(range(2), LARS(groups(), **SETTINGS))


def test_impossible_settings_are_refused():
    for name in ('lr', 'momentum', 'weight_decay', 'eta', 'eps'):
        for value in (-1.0, -1, float('nan')):
            with pytest.raises(UserError, match=f'{name}={value}'):
                LARS(groups(), **{**SETTINGS, name: value})
    with pytest.raises(UserError, match=r'lr=-0\.5'):
        LARS([dict(params=[torch.nn.Parameter(torch.ones(2))], lr=-0.5)], lr=0.1)
    with pytest.raises(UserError, match=r'momentum=0\.0'):
        LARS(groups(), lr=0.1, nesterov=True)
