"""Muon against a plain form: one singular value decomposition, one loop over tensors."""

import numpy as np
import pytest
import torch
from torch import nn

from ttl_mm.engine.optim.muon import BLOCK, Muon, orthogonalized
from ttl_mm.errors import UserError
from ttl_mm.registry import OPTIMIZERS


def by_svd(matrix):
    """The same polynomial, applied to the singular values one by one."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    s = s / np.sqrt((s**2).sum())
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ np.diag(s) @ v


@pytest.mark.parametrize('shape', [(4, 7), (7, 4), (5, 5)])
def test_singular_values_go_to_one_and_vectors_stay(shape):
    matrices = np.random.default_rng(0).normal(size=(3, *shape))
    found = torch.stack(orthogonalized(list(torch.tensor(matrices))))
    for matrix, result in zip(matrices, found):
        np.testing.assert_allclose(result.numpy(), by_svd(matrix), atol=1e-9)
    assert 0.6 < torch.linalg.svdvals(found).min() <= torch.linalg.svdvals(found).max() < 1.3


@pytest.mark.parametrize('turned', [False, True])
def test_a_long_smaller_side_is_taken_in_blocks_of_rows(turned):
    rows, last = np.random.default_rng(0).normal(size=(300, 310)), 2 * BLOCK
    expected = np.concatenate([by_svd(part) for part in np.split(rows, [BLOCK, last])])
    (found,) = orthogonalized([torch.tensor(rows.T if turned else rows)])
    np.testing.assert_allclose((found.T if turned else found).numpy(), expected, atol=1e-9)


def small_network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4)]
    return nn.Sequential(*layers).double().to(memory_format=torch.channels_last)


def test_three_steps_equal_a_loop_over_arrays():
    network = small_network()
    optimizer = OPTIMIZERS.build(dict(
        type='ttl_mm.Muon', params=network.parameters(), lr=0.2, momentum=0.8, weight_decay=0.1,
        matrix_rate=0.5,
    ))  # fmt: skip
    weights = [p.detach().numpy().copy() for p in network.parameters()]
    buffers = [np.zeros_like(w) for w in weights]
    for seed in range(3):
        torch.manual_seed(seed)
        optimizer.zero_grad()
        network(torch.randn(6, 3, 4, 4, dtype=torch.double)).square().mean().backward()
        optimizer.step()
        for i, p in enumerate(network.parameters()):
            w, g = weights[i], p.grad.numpy()
            if w.ndim == 1:
                g = g + 0.1 * w
            buffers[i] = 0.8 * buffers[i] + g
            u = g + 0.8 * buffers[i]
            if w.ndim == 1:
                weights[i] = w - 0.2 * u
                continue
            update = by_svd(u.reshape(len(u), -1)).reshape(u.shape)
            norm = np.linalg.norm(w)
            w = w - 0.1 * norm / np.linalg.norm(update) * update
            weights[i] = w * norm / np.linalg.norm(w)
    for w, p in zip(weights, network.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-8, atol=1e-10)


def test_a_saved_state_continues_bit_equal():
    def steps(network, optimizer, seeds):
        for seed in seeds:
            torch.manual_seed(seed)
            optimizer.zero_grad()
            network(torch.randn(6, 3, 4, 4, dtype=torch.double)).square().mean().backward()
            optimizer.step()

    whole = small_network()
    steps(whole, Muon(whole.parameters(), lr=0.1), range(4))
    first = small_network()
    optimizer = Muon(first.parameters(), lr=0.1)
    steps(first, optimizer, range(2))
    second = small_network()
    second.load_state_dict(first.state_dict())
    again = Muon(second.parameters(), lr=0.7)  # the saved rate counts
    again.load_state_dict(optimizer.state_dict())
    steps(second, again, range(2, 4))
    for a, b in zip(whole.state_dict().values(), second.state_dict().values()):
        assert torch.equal(a, b)


def test_parameters_without_gradient_and_zero_gradients_stay():
    still, zero = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    zero.grad = torch.zeros(2, 3)
    optimizer = Muon([still, zero], lr=0.1)
    assert optimizer.step(lambda: 7) == 7
    assert torch.equal(still, torch.ones(2, 3))
    assert torch.allclose(zero, torch.ones(2, 3))


def test_settings_that_cannot_be_meant_are_refused():
    for wrong in (dict(lr=-1), dict(lr=1, momentum=1.0), dict(lr=1, matrix_rate=0)):
        with pytest.raises(UserError, match='Muon'):
            Muon([nn.Parameter(torch.ones(1))], **wrong)
