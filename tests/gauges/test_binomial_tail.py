import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from ttl_mm.gauges import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.binomial_tail import log_overclustering_risk

GRID = list(product([1, 2, 10, 103, 195, 1000], [1, 2, 5, 52], [1e-5, 1e-3, 0.1, 0.5, 0.97]))


def exact_tail(m, k, p):
    return sum(math.comb(m, j) * p**j * (1 - p) ** (m - j) for j in range(k, m + 1))


def log_of(fraction):
    return math.log(fraction.numerator) - math.log(fraction.denominator)


@pytest.mark.parametrize(
    ('m', 'k', 'published'),
    [
        (104, 5, 8.468544e-08),
        (104, 52, 1.504288e-126),
        (103, 5, 8.068110e-08),
        (103, 52, 7.528828e-127),
        (104, 1, 9.882160e-02),
    ],
)
def test_risk_has_the_exact_figures_of_the_method(m, k, published):
    assert overclustering_risk(m, k, 1 / 1000) == pytest.approx(published, rel=1e-6)


@pytest.mark.parametrize(('m', 'k'), [(104, 5), (104, 52), (195, 98), (40, 1), (60, 60)])
@pytest.mark.parametrize('p', [Fraction(1, 1000), Fraction(1, 10), Fraction(2, 3)])
def test_log_risk_equals_exact_rationals(m, k, p):
    assert log_overclustering_risk(m, k, float(p)) == pytest.approx(
        log_of(exact_tail(m, k, p)), rel=1e-9, abs=1e-14
    )


@pytest.mark.parametrize(('m', 'k', 'p'), GRID)
def test_log_risk_equals_scipy(m, k, p):
    expected = binom.logsf(k - 1, m, p)
    assert log_overclustering_risk(m, k, p) == pytest.approx(expected, rel=1e-6)


def test_large_batches_neither_underflow_nor_crawl():
    m, k, p = 100_000, 1000, 1e-4
    leading = log_of(Fraction(math.comb(m, k))) + k * math.log(p) + (m - k) * math.log1p(-p)
    ratio = (m - k) / (k + 1) * p / (1 - p)  # of the second term to the first: about 1 %
    expected = leading - math.log1p(-ratio)
    assert log_overclustering_risk(m, k, p) == pytest.approx(expected, rel=1e-8)
    assert overclustering_risk(m, k, p) == 0.0


def test_unequal_classes_average_over_the_anchors():
    shares = [0.7, 0.2, 0.05, 0.05]
    expected = sum(p * binom.sf(4, 103, p) for p in shares)
    assert overclustering_risk(103, 5, shares) == pytest.approx(expected, rel=1e-9)


def test_equal_shares_are_the_balanced_risk():
    assert overclustering_risk(103, 5, np.full(100, 0.01)) == pytest.approx(
        overclustering_risk(103, 5, 0.01), rel=1e-12
    )


@pytest.mark.parametrize(
    ('m', 'k', 'p', 'expected'),
    [(10, 0, 0.1, 1), (10, 11, 0.1, 0), (10, 3, 0, 0), (10, 3, 1, 1), (0, 1, 0.5, 0)],
)
def test_risk_at_the_edges(m, k, p, expected):
    assert overclustering_risk(m, k, p) == expected


@pytest.mark.parametrize(
    ('m', 'p', 'bound'), product([1, 9, 103, 511], [1e-4, 0.01, 0.3], [1e-9, 1e-3, 0.4])
)
def test_inverse_is_the_first_rank_within_the_bound(m, p, bound):
    k = smallest_safe_k(m, p, bound)
    assert overclustering_risk(m, k, p) <= bound
    assert k == 1 or overclustering_risk(m, k - 1, p) > bound


@pytest.mark.parametrize(('m', 'k'), [(103, 1), (103, 5), (103, 30)])
def test_inverse_of_a_risk_is_its_rank(m, k):
    assert smallest_safe_k(m, 0.01, overclustering_risk(m, k, 0.01)) == k


def test_inverse_beyond_the_batch_says_that_no_rank_is_safe():
    assert smallest_safe_k(7, 1.0, 0.5) == 8


@pytest.mark.parametrize('p', [-0.1, 1.1, [0.5, 0.4], [1.2, -0.2]])
def test_impossible_shares_are_refused(p):
    with pytest.raises(ValueError, match='share'):
        overclustering_risk(10, 2, p)


def test_a_bound_outside_of_probabilities_is_refused():
    with pytest.raises(ValueError, match=r'probability, got 1\.5'):
        smallest_safe_k(10, 0.1, 1.5)
