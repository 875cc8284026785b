import numpy as np
import pytest
from scipy.stats import binom

from ttl_mm.report.clustering_figures import both_sides_figure, rank_figure


def line(axes):
    return [np.asarray(values).tolist() for values in axes.lines[0].get_data()]


def test_both_sides_of_k_are_binomial_tails():
    above, below = both_sides_figure(20, 10, risk=0.01).axes
    ranks = list(range(1, 15))  # twice the smallest safe k, 7
    assert line(above)[0] == line(below)[0] == ranks
    assert line(above)[1] == pytest.approx([binom.sf(k - 1, 20, 0.1) for k in ranks])
    for k, poles in zip(*line(below)):  # a pole is as crowded as one of so many equal classes
        assert binom.sf(k - 1, 20, 1 / poles) <= 0.01 < binom.sf(k - 1, 20, 1 / (poles - 1))
    assert above.get_title() == 'smallest safe k: 7'
    assert both_sides_figure(20, 1).axes[0].get_title() == 'no k is safe'
    shares = [0.55] + [0.05] * 9
    unequal, _ = both_sides_figure(20, 10, risk=0.01, shares=shares).axes
    risks = [sum(p * binom.sf(k - 1, 20, p) for p in shares) for k in range(1, 21)]
    assert line(unequal)[1] == pytest.approx(risks[: len(line(unequal)[1])])
    safe = 1 + next(k for k, risk in enumerate(risks) if risk <= 0.01)
    assert unequal.get_title() == f'smallest safe k: {safe}'


def test_ranks_start_at_one():
    (axes,) = rank_figure({'features': [0.5, 0.2]}, chance=0.1, perfect=[1.0, 0.0]).axes
    assert line(axes) == [[1, 2], [0.5, 0.2]]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ['features', 'perfect features', 'random pick']
