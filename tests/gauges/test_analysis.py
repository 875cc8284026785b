import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import binom, entropy

from ttl_mm.errors import UserError
from ttl_mm.gauges import analyze_features
from ttl_mm.gauges.analysis import first_rank_below


def perfect(classes=5, per_class=40):
    labels = torch.arange(classes).repeat(per_class)
    noise = torch.randn(len(labels), classes, generator=torch.Generator().manual_seed(0))
    return torch.eye(classes)[labels] + 0.01 * noise, labels


def noise(classes=5, per_class=40):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat(per_class)
    return torch.randn(len(labels), 16, generator=generator), labels


def test_perfect_features_put_their_false_negatives_first():
    analysis = analyze_features(*perfect(), batch_size=21, num_batches=100)
    # all members of the own class come first, so the rate never rises with the rank
    assert all(a >= b for a, b in zip(analysis.rates, analysis.rates[1:]))
    assert sum(analysis.rates) == pytest.approx(20 * analysis.chance, rel=0.05)


def test_rates_of_noise_are_those_of_a_random_pick():
    analysis = analyze_features(*noise(), batch_size=21, num_batches=400)
    error = math.sqrt(analysis.chance * (1 - analysis.chance) / (400 * 21))
    deviations = np.abs(np.array(analysis.rates) - analysis.chance) / error
    assert deviations.mean() < 1.5  # 0.8 is expected of a normal deviation


def test_chance_is_that_of_two_different_images():
    _, labels = perfect(classes=3, per_class=2)
    analysis = analyze_features(torch.eye(6), labels, batch_size=4, num_batches=5)
    assert analysis.chance == pytest.approx(1 / 5)


def test_the_gauges_are_those_of_all_features():
    features, labels = noise()
    analysis = analyze_features(features, labels, batch_size=21, num_batches=5)
    x, y = features.double().numpy(), labels.numpy()
    centers = np.stack([x[y == c].mean(0) for c in range(5)])
    distance = np.mean([np.linalg.norm(a - b) for a, b in combinations(centers, 2)])
    within, total = np.sqrt(((x - centers[y]) ** 2).mean()), np.sqrt(((x - x.mean(0)) ** 2).mean())
    assert analysis.divergence == pytest.approx(distance / within, rel=1e-6)
    assert analysis.divergence_total == pytest.approx(distance / total, rel=1e-6)
    singular_values = np.linalg.svd(x, compute_uv=False)
    assert analysis.effective_rank == pytest.approx(np.exp(entropy(singular_values)), rel=1e-6)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert analysis.std == pytest.approx(unit.std(0).mean(), rel=1e-6)
    first_safe = next(k for k in range(1, 21) if binom.sf(k - 1, 20, 1 / 5) <= 1e-3)
    assert analysis.safe_k == first_safe


def test_the_same_seed_draws_the_same_batches():
    features, labels = noise()
    one, same, other = (
        analyze_features(features, labels, 21, num_batches=5, seed=seed).rates for seed in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize(
    ('rates', 'first'), [([0.5, 0.3, 0.1], 3), ([0.1, 0.9], 1), ([0.9, 0.9], 3)]
)
def test_first_rank_below_a_level(rates, first):
    assert first_rank_below(rates, 0.2) == first


@pytest.mark.parametrize(('size', 'message'), [(1, 'batch size 1'), (201, 'with 200 images')])
def test_impossible_batches_are_refused(size, message):
    with pytest.raises(UserError, match=message):
        analyze_features(*noise(), batch_size=size)


def test_a_single_class_is_refused():
    with pytest.raises(UserError, match='one class'):
        analyze_features(torch.eye(4), torch.zeros(4), batch_size=2)
