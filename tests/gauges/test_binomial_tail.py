"""The risk against sums of exact rationals."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ttl_mm.gauges import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.binomial_tail import log_overclustering_risk


def exact_tail(m, k, p):
    """P(X >= k) for X ~ Binomial(m, p) without any rounding; ``p`` is the very float64."""
    a, b = Fraction(p).as_integer_ratio()
    terms = (math.comb(m, j) * a**j * (b - a) ** (m - j) for j in range(k, m + 1))
    return Fraction(sum(terms), b**m)


def log_of(fraction):
    """Natural logarithm, also of fractions that no float64 holds or that are close to 1."""
    if fraction > Fraction(1, 2):
        return math.log1p(float(fraction - 1))
    shift = fraction.denominator.bit_length() - fraction.numerator.bit_length()
    return math.log(fraction * 2**shift) - shift * math.log(2)


def test_risk_has_the_figures_of_the_method_and_equals_exact_rationals():
    for (m, k), published in {
        (104, 5): 8.468544e-08,
        (104, 52): 1.504288e-126,
        (103, 5): 8.068110e-08,
        (103, 52): 7.528828e-127,
        (104, 1): 9.882160e-02,
    }.items():
        assert overclustering_risk(m, k, 1 / 1000) == pytest.approx(published, rel=1e-6)
    sizes = [(1, 1), (2, 2), (10, 1), (40, 1), (60, 60), (103, 5), (104, 52), (195, 98), (400, 300)]
    below_float64 = 0
    for (m, k), p in product(sizes, [1e-5, 1e-3, 0.1, 0.5, 2 / 3, 0.97]):
        exact = exact_tail(m, k, p)
        below_float64 += exact < 1e-308
        found = log_overclustering_risk(m, k, p)
        assert found == pytest.approx(log_of(exact), rel=1e-12, abs=1e-13), (m, k, p)
    assert below_float64 >= 3  # tails whose probability no float64 holds are among them
    for k in range(110, 130):  # around the place where it becomes too small for float64
        exact = exact_tail(300, k, 1e-3)
        assert 1e-330 < exact < 1e-200
        found = log_overclustering_risk(300, k, 1e-3)
        assert found == pytest.approx(log_of(exact), rel=1e-12), k


def test_large_batches_neither_underflow_nor_crawl():
    m, k, p = 100_000, 1000, 1e-4
    leading = math.log(math.comb(m, k)) + k * math.log(p) + (m - k) * math.log1p(-p)
    ratio = (m - k) / (k + 1) * p / (1 - p)  # of the second term to the first: about 1 %
    expected = leading - math.log1p(-ratio)
    assert log_overclustering_risk(m, k, p) == pytest.approx(expected, rel=1e-8)
    assert overclustering_risk(m, k, p) == 0.0


def test_unequal_classes_average_over_the_anchors_and_edges_are_certain():
    shares = [0.7, 0.2, 0.05, 0.05]
    expected = float(sum(Fraction(p) * exact_tail(103, 5, p) for p in shares))
    assert overclustering_risk(103, 5, shares) == pytest.approx(expected, rel=1e-9)
    balanced = overclustering_risk(103, 5, 0.01)
    assert overclustering_risk(103, 5, np.full(100, 0.01)) == pytest.approx(balanced, rel=1e-12)
    for m, k, p, expected in [
        (10, 0, 0.1, 1), (10, 11, 0.1, 0), (10, 3, 0, 0), (10, 3, 1, 1), (0, 1, 0.5, 0),
    ]:  # fmt: skip
        assert overclustering_risk(m, k, p) == expected


def test_inverse_is_the_first_rank_within_the_bound():
    for m, p, bound in product([1, 9, 103, 250], [1e-4, 0.01, 0.3], [1e-9, 1e-3, 0.4]):
        k = smallest_safe_k(m, p, bound)
        assert exact_tail(m, k, p) <= bound, (m, p, bound)
        assert k == 1 or exact_tail(m, k - 1, p) > bound, (m, p, bound)
    for k in (1, 5, 30):
        assert smallest_safe_k(103, 0.01, overclustering_risk(103, k, 0.01)) == k
    assert smallest_safe_k(7, 1.0, 0.5) == 8  # no rank is safe


def test_impossible_shares_sizes_and_bounds_are_refused():
    for p in (-0.1, 1.1, float('nan'), [0.5, 0.4], [1.2, -0.2]):
        with pytest.raises(ValueError, match='share'):
            overclustering_risk(10, 2, p)
    with pytest.raises(ValueError, match='got -1'):
        overclustering_risk(-1, 2, 0.1)
    with pytest.raises(ValueError, match=r'probability, got 1\.5'):
        smallest_safe_k(10, 0.1, 1.5)
