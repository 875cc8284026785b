"""Mixed precision on the CPU, where the same autocast and the same scaler run as on a GPU."""

import pytest
import torch
from torch import nn

from ttl_mm.engine import AmpOptimWrapper
from ttl_mm.errors import UserError


def make(dtype='float16', **options):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, AmpOptimWrapper(optimizer=optimizer, dtype=dtype, **options)


def step(model, wrapper, factor=1.0):
    with wrapper.optim_context(model):
        output = model(torch.ones(4, 3))
    wrapper.update_params(output.float().sum() * factor)
    return output


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_a_step_is_that_of_the_exact_gradient(dtype):
    model, wrapper = make(dtype, loss_scale=dict(init_scale=8.0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert step(model, wrapper).dtype == getattr(torch, dtype)
    for name, tensor in model.state_dict().items():  # every derivative is 4, the number of rows
        torch.testing.assert_close(tensor, before[name] - 0.4)


def test_only_float16_has_a_scale_and_an_infinity_halves_it_without_a_step():
    model, wrapper = make(loss_scale=dict(init_scale=8.0))
    step(model, wrapper, factor=float('inf'))
    assert wrapper.loss_scaler.get_scale() == 4
    torch.manual_seed(0)
    assert model.weight.equal(nn.Linear(3, 2).weight)
    assert not make('bfloat16')[1].loss_scaler.is_enabled()
    model, fixed = make(loss_scale=16.0)
    step(model, fixed)
    assert fixed.loss_scaler.get_scale() == 16


def test_the_scale_is_resumed_and_begins_again_after_a_run_without_one():
    first = make(loss_scale=dict(init_scale=8.0))
    step(*first)
    _, second = make()
    second.load_state_dict(first[1].state_dict())
    assert second.loss_scaler.state_dict() == first[1].loss_scaler.state_dict()
    _, third = make()
    third.load_state_dict(make('bfloat16')[1].state_dict())
    assert third.loss_scaler.get_scale() == 65536


def test_an_unknown_kind_is_refused():
    with pytest.raises(UserError, match="'float16' or 'bfloat16'"):
        make('float8')
