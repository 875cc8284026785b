import numpy as np
from scipy.stats import chisquare

from ttl_mm.datasets.permutation import permuted


def test_is_a_permutation_of_which_any_part_can_be_computed():
    for n in (1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097):
        assert sorted(permuted(np.arange(n), n, (0, 1))) == list(range(n))
    whole = permuted(np.arange(1000), 1000, (7,))
    assert (permuted(np.array([3, 999, 500]), 1000, (7,)) == whole[[3, 999, 500]]).all()


def test_looks_random():
    """Where an image lands, and which image follows it, are uniform over 3,000 seeds."""
    first = np.stack([permuted(np.arange(2), 10, (seed,)) for seed in range(3000)])
    assert chisquare(np.bincount(first[:, 0], minlength=10)).pvalue > 1e-3
    steps = (first[:, 1] - first[:, 0]) % 10
    assert chisquare(np.bincount(steps, minlength=10)[1:]).pvalue > 1e-3
