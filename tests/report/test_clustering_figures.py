import numpy as np
import pytest
from scipy.stats import binom

from ttl_mm.report.clustering_figures import (
    both_sides_figure,
    pole_loss_figure,
    rank_figure,
    sweep_figure,
)
from ttl_mm.report.paper import linear_figure, omega_figure
from ttl_mm.report.published import published


def line(axes, index=0):
    return [np.asarray(values).tolist() for values in axes.lines[index].get_data()]


def test_both_sides_of_k_are_binomial_tails():
    above, below = both_sides_figure(20, 10, risk=0.01).axes
    ranks = list(range(1, 15))  # twice the smallest safe k, 7
    assert line(above)[0] == line(below)[0] == ranks
    assert line(above)[1] == pytest.approx([binom.sf(k - 1, 20, 0.1) for k in ranks])
    for k, poles in zip(*line(below)):  # a pole is as crowded as one of so many equal classes
        assert binom.sf(k - 1, 20, 1 / poles) <= 0.01 < binom.sf(k - 1, 20, 1 / (poles - 1))
    assert above.get_title() == 'smallest safe k: 7'


def test_a_single_class_is_said_to_have_no_safe_k():
    assert both_sides_figure(20, 1).axes[0].get_title() == 'no k is safe'


def test_the_minimum_of_every_deputy_is_marked():
    (axes,) = pole_loss_figure(104, {'rank 5': (5, 5), 'rank 52': (52, 52)}).axes
    marks = [line(axes, index) for index in (1, 3)]
    assert marks[0][0] == [21]  # 104 / 5 images on a pole
    assert marks[1] == [[2], [-3.0]]


def test_ranks_start_at_one():
    (axes,) = rank_figure({'features': [0.5, 0.2]}, chance=0.1, perfect=[1.0, 0.0]).axes
    assert line(axes) == [[1, 2], [0.5, 0.2]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        'features',
        'perfect features',
        'random pick',
    ]


def test_a_sweep_shows_both_measures():
    above, below = sweep_figure([1, 5], [90.0, 80.0], [9.0, 2.0], 'kNN top-1 (%)', safe=3).axes
    assert line(above) == [[1, 5], [90.0, 80.0]]
    assert line(below) == [[1, 5], [9.0, 2.0]]


def test_published_points_are_the_papers_and_hollow():
    (axes,) = linear_figure().axes
    ours = next(drawn for drawn in axes.lines if drawn.get_label() == 'truncated triplet')
    cells = published('T2_imagenet_linear', ours=True)
    assert sorted(ours.get_ydata()) == sorted(cell.value for cell in cells)
    assert ours.get_markerfacecolor() == 'white'


def test_published_frequencies_are_those_of_table_6():
    (axes,) = omega_figure().axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0.1538, 0.9656, 0.1167, 0.2105, 0.122, 0.011])
