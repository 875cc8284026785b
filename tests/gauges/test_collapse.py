import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from ttl_mm.gauges import effective_rank, feature_std


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_effective_rank_equals_the_entropy_of_an_svd():
    for shape in ((64, 16), (16, 64), (30, 30)):
        features = randn(*shape)
        singular_values = np.linalg.svd(features.double().numpy(), compute_uv=False)
        assert effective_rank(features) == pytest.approx(np.exp(entropy(singular_values)), rel=1e-6)
    for rank in (1, 3, 8):
        directions = torch.eye(16)[:rank].repeat(5, 1) * 7
        assert effective_rank(directions) == pytest.approx(rank, rel=1e-6)


def test_feature_std_is_that_of_the_sphere():
    assert feature_std(randn(20_000, 32)) == pytest.approx(1 / math.sqrt(32), rel=0.01)
    features = randn(50, 8)
    scales = torch.arange(1.0, 51.0)[:, None]
    assert feature_std(features * scales) == pytest.approx(feature_std(features), rel=1e-6)


def test_collapse_to_one_point_or_two_poles_shows():
    point = randn(1, 8).repeat(20, 1)
    assert feature_std(point) == pytest.approx(0, abs=1e-6)
    assert effective_rank(point) == pytest.approx(1, abs=1e-5)
    assert effective_rank(torch.zeros(4, 3)) == 0
    pole = torch.nn.functional.normalize(randn(1, 64))
    poles = torch.cat([pole.repeat(50, 1), -pole.repeat(50, 1)])
    healthy = 1 / math.sqrt(64)
    assert feature_std(poles) > 0.7 * healthy
    assert effective_rank(poles) == pytest.approx(1, abs=1e-5)


def test_non_finite_features_give_nan_and_no_matrix_is_refused():
    features = randn(4, 3)
    features[1, 1] = float('nan')
    assert math.isnan(effective_rank(features))
    assert math.isnan(feature_std(features))
    for gauge in (feature_std, effective_rank):
        with pytest.raises(ValueError, match=r'\(2, 3, 4\)'):
            gauge(torch.zeros(2, 3, 4))
