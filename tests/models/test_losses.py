"""The loss against a loop over rows, and against values of the authors' released head."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ttl_mm.errors import UserError
from ttl_mm.models import deputy_ranks, truncated_triplet_loss

GOLDEN = json.loads((Path(__file__).parent / 'released_head.json').read_text())
RANKS = [(1, 1), (5, 5), (12, 12), (2, 11), (2, 10), 'semi-hard', 'all']


def loop_loss(query, key, ranks, gamma=2.0, margin=-100.0, ceiling=None):
    """Row by row, with vectors and sorted lists alone."""
    losses = []
    for i, q in enumerate(query):
        distances = [-(q @ z) / (q.norm() * z.norm()) for z in key]
        positive = distances.pop(i)
        distances.sort()
        if ranks == 'semi-hard':
            farther = [d for d in distances if d > positive]
            deputy = farther[0] if farther else distances[-1]
        else:
            lo, hi = (1, len(distances)) if ranks == 'all' else ranks
            chosen = distances[lo - 1 : hi]
            deputy = sum(chosen) / len(chosen)
        if ceiling is not None and deputy > ceiling:
            deputy = torch.tensor(ceiling)
        value = gamma * positive - deputy
        losses.append(value if value > margin else torch.zeros_like(value) + margin)
    return torch.stack(losses)


def embeddings(n=24, d=16, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(n, d, dtype=dtype, generator=generator)
    key = query * 0.5 + torch.randn(n, d, dtype=dtype, generator=generator)
    return query.requires_grad_(), key


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
@pytest.mark.parametrize('ranks', RANKS)
@pytest.mark.parametrize('options', [{}, {'margin': -1.2}, {'gamma': 1.0}, {'ceiling': 0.1}])
def test_value_and_gradient_equal_a_loop(dtype, ranks, options):
    query, key = embeddings(dtype=dtype)
    expected = loop_loss(query, key, ranks, **options)
    (expected_grad,) = torch.autograd.grad(expected.mean(), query)
    options = {'deputy_ceiling' if k == 'ceiling' else k: v for k, v in options.items()}
    found = truncated_triplet_loss(query, key, ranks, reduction='none', **options)
    (found_grad,) = torch.autograd.grad(found.mean(), query)
    tolerance = {'rtol': 1e-5, 'atol': 1e-6} if dtype == torch.float32 else {}
    torch.testing.assert_close(found, expected, **tolerance)
    torch.testing.assert_close(found_grad, expected_grad, **tolerance)


@pytest.mark.parametrize('case', GOLDEN['cases'], ids=lambda case: f'n{case["n"]}-{case["seed"]}')
def test_released_head(case):
    random = np.random.RandomState(case['seed'])
    query, key = (
        torch.from_numpy(random.randn(case['n'], case['d']).astype(np.float32)) for _ in range(2)
    )
    query.requires_grad_()
    released = 2 * truncated_triplet_loss(query, key, (2, 10), case['gamma'], margin=-50) + 100
    released.backward()
    assert released.item() == pytest.approx(case['loss'], rel=1e-4)
    assert query.grad.norm().item() == pytest.approx(case['grad_norm'], rel=1e-4)
    assert query.grad[0, :4].tolist() == pytest.approx(case['grad_first_row'], rel=1e-4)


def test_ranks_of_a_deputy():
    assert deputy_ranks(103) == (52, 52)
    assert deputy_ranks(103, k=5) == (5, 5)
    assert deputy_ranks(103, k=5, smoothed=True) == (2, 11)


@pytest.mark.parametrize('settings', [{'k': 0}, {'k': 2.5}, {'smoothed': True}])
def test_impossible_ranks_are_refused(settings):
    with pytest.raises(UserError, match=str(settings.get('k', 'smoothed'))):
        deputy_ranks(103, **settings)
