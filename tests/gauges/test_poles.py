from itertools import product

import pytest
import torch
from scipy.stats import binom

from ttl_mm.gauges import effective_rank, fewest_poles, pole_loss, smallest_safe_k
from ttl_mm.models import deputy_ranks, truncated_triplet_loss


def simplex(poles):
    """(poles, poles) unit vectors, every two of them at the same, largest distance."""
    corners = torch.eye(poles, dtype=torch.float64) - 1 / poles
    return torch.nn.functional.normalize(corners)


def test_loss_of_poles_is_the_loss_of_a_batch_on_them():
    for poles in (2, 3, 10, 26, 50, 104):
        batch = simplex(poles)[torch.arange(104) % poles]
        for ranks in ((1, 1), (5, 5), (2, 10), (52, 52), (1, 103)):
            expected = truncated_triplet_loss(batch, batch, ranks).item()
            assert pole_loss(104, poles, ranks) == pytest.approx(expected, abs=1e-12)


def test_two_poles_are_the_global_minimum_of_the_papers_k():
    pole = torch.randn(64, generator=torch.Generator().manual_seed(0))
    batch = torch.stack([pole, -pole]).repeat(52, 1)
    ranks = deputy_ranks(103)
    lowest_possible = -2.0 - 1.0  # no distance lies outside of [-1, 1]
    assert truncated_triplet_loss(batch, batch, ranks).item() == pytest.approx(lowest_possible)
    assert pole_loss(104, 2, ranks) == lowest_possible
    for ranks in ((5, 5), (2, 10)):  # near the front, where two poles count as a collapse
        assert truncated_triplet_loss(batch, batch, ranks).item() == pytest.approx(-1)


def descend(ranks, n=32, dimension=8, steps=1500):
    """Let free unit vectors follow the gradient of the loss, each its own positive."""
    points = torch.randn(n, dimension, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        points = torch.nn.functional.normalize(points).requires_grad_()
        (gradient,) = torch.autograd.grad(truncated_triplet_loss(points, points, ranks), points)
        points = (points - 6.0 * gradient).detach()
    return effective_rank(points)


def test_gradient_descent_falls_onto_few_poles_for_k_half_and_not_for_small_k():
    assert descend((4, 4)) > 7
    assert descend((16, 16)) < 2.5


def test_fewest_poles_are_the_first_within_the_risk_and_fit_the_smallest_safe_k():
    sizes = [(103, 1), (103, 5), (103, 52), (63, 20), (9, 9)]
    for (m, k), risk in product(sizes, [0.3, 1e-3]):
        poles = fewest_poles(m, k, risk)
        assert binom.sf(k - 1, m, 1 / poles) <= risk
        assert poles == 2 or binom.sf(k - 1, m, 1 / (poles - 1)) > risk
    for m, classes in [(103, 1000), (103, 100), (103, 10), (255, 50)]:
        k = smallest_safe_k(m, 1 / classes, 1e-3)
        assert fewest_poles(m, k + 1, 1e-3) < fewest_poles(m, k, 1e-3) <= classes
        assert k == 1 or fewest_poles(m, k - 1, 1e-3) > classes


def test_impossible_ranks_risks_and_poles_are_refused():
    for k, risk in [(0, 0.1), (10, 0.1), (3, 0.0), (3, 1.0)]:
        with pytest.raises(ValueError, match='got'):
            fewest_poles(9, k, risk)
    for poles, ranks in [(0, (1, 1)), (11, (1, 1)), (2, (1, 10)), (2, (0, 1))]:
        with pytest.raises(ValueError, match='batch of 10'):
            pole_loss(10, poles, ranks)
