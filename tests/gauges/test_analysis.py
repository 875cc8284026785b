import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from ttl_mm.errors import UserError
from ttl_mm.gauges import analyze_features, class_divergence, effective_rank, feature_std
from ttl_mm.gauges.analysis import first_rank_below


def perfect(classes=5, per_class=40):
    labels = torch.arange(classes).repeat(per_class)
    noise = torch.randn(len(labels), classes, generator=torch.Generator().manual_seed(0))
    return torch.eye(classes)[labels] + 0.01 * noise, labels


def noise(classes=5, per_class=40):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat(per_class)
    return torch.randn(len(labels), 16, generator=generator), labels


def test_rates_of_perfect_features_and_of_noise():
    analysis = analyze_features(*perfect(), batch_size=21, num_batches=100)
    # all members of the own class come first, so the rate never rises with the rank
    assert all(a >= b for a, b in zip(analysis.rates, analysis.rates[1:]))
    assert sum(analysis.rates) == pytest.approx(20 * analysis.chance, rel=0.05)
    analysis = analyze_features(*noise(), batch_size=21, num_batches=400)
    error = math.sqrt(analysis.chance * (1 - analysis.chance) / (400 * 21))
    deviations = np.abs(np.array(analysis.rates) - analysis.chance) / error
    assert deviations.mean() < 1.5  # 0.8 is expected of a normal deviation
    _, labels = perfect(classes=3, per_class=2)
    analysis = analyze_features(torch.eye(6), labels, batch_size=4, num_batches=5)
    assert analysis.chance == pytest.approx(1 / 5)
    for rates, first in ([0.5, 0.3, 0.1], 3), ([0.1, 0.9], 1), ([0.9, 0.9], 3):
        assert first_rank_below(rates, 0.2) == first


def test_gauges_are_those_of_all_features_and_the_seed_draws_the_batches():
    features, labels = noise()
    analysis = analyze_features(features, labels, batch_size=21, num_batches=5)
    assert analysis.divergence == class_divergence(features, labels)
    assert analysis.divergence_total == class_divergence(features, labels, 'total')
    assert analysis.effective_rank == effective_rank(features)
    assert analysis.std == feature_std(features)
    first_safe = next(k for k in range(1, 21) if binom.sf(k - 1, 20, 1 / 5) <= 1e-3)
    assert analysis.safe_k == first_safe
    one, same, other = (
        analyze_features(features, labels, 21, num_batches=5, seed=seed).rates for seed in (1, 1, 2)
    )
    assert one == same != other


def test_impossible_batches_and_a_single_class_are_refused():
    for size, message in ((1, 'batch size 1'), (201, 'with 200 images')):
        with pytest.raises(UserError, match=message):
            analyze_features(*noise(), batch_size=size)
    with pytest.raises(UserError, match='one class'):
        analyze_features(torch.eye(4), torch.zeros(4), batch_size=2)
