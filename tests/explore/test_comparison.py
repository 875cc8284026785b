import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from ttl_mm.evaluation.feature_file import Features
from ttl_mm.explore.comparison import (
    MIXED,
    NO,
    SAME,
    YES,
    Interval,
    accuracy,
    answer,
    correct_images,
    draw_rows,
    lead,
    outcome,
    resampled,
    verdict,
)


def features_of(rows, labels):
    classes = [str(c) for c in np.unique(labels)]
    return Features(rows, np.asarray(labels), [str(i) for i in range(len(rows))], classes, {})


@pytest.fixture(scope='module')
def splits():
    """Digits, and the same digits under noise: train and test of both."""
    digits = load_digits(n_class=5)
    order = np.random.default_rng(0).permutation(len(digits.data))
    rows = digits.data[order].astype(np.float32)
    labels = digits.target[order]
    noisy = rows + np.random.default_rng(1).normal(size=rows.shape).astype(np.float32) * 14
    parts = slice(0, 300), slice(300, 500)
    return [[features_of(x[p], labels[p]) for p in parts] for x in (rows, noisy)]


def test_draws_take_four_fifths_of_every_class():
    labels = np.repeat([0, 1, 2], [50, 10, 5])
    drawn = draw_rows(labels, seed=3)
    assert np.bincount(labels[drawn]).tolist() == [40, 8, 4]
    assert np.array_equal(drawn, draw_rows(labels, seed=3))
    assert not np.array_equal(drawn, draw_rows(labels, seed=4))
    assert np.bincount(labels[draw_rows(labels, 0, per_class=5)]).tolist() == [5, 5, 5]


def test_knn_equals_scikit_learn_on_the_same_draws(splits):
    train, test = splits[0]
    for seed in range(2):
        found = correct_images(train, test, 'knn', seed)
        drawn = draw_rows(train.labels, seed)
        knn = KNeighborsClassifier(20, metric='cosine', weights=lambda d: np.exp((1 - d) / 0.07))
        knn.fit(train.features[drawn], train.labels[drawn])
        assert (found == (knn.predict(test.features) == test.labels)).mean() > 0.99


def test_the_interval_is_that_of_a_mean():
    values = np.random.default_rng(0).normal(3, 2, size=(1, 400))
    found = resampled(values)
    low, high = stats.norm.interval(0.95, values.mean(), values.std() / 20)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(low, abs=0.03)
    assert found.high == pytest.approx(high, abs=0.03)


def test_equal_features_show_no_difference_and_worse_ones_do(splits):
    judged = {
        name: [
            np.stack([correct_images(*features, name, seed) for seed in range(3)])
            for features in splits
        ]
        for name in ('knn', 'linear', 'lowshot')
    }
    same = {name: lead(good, good) for name, (good, _) in judged.items()}
    assert set(same.values()) == {Interval(0, 0, 0)}
    assert verdict('A', 'B', same).startswith('No difference')
    ahead = {name: lead(good, bad) for name, (good, bad) in judged.items()}
    assert all(found.low > 0 for found in ahead.values())
    assert verdict('A', 'random', ahead).startswith('Yes: A is better than random')
    behind = {name: lead(bad, good) for name, (good, bad) in judged.items()}
    assert verdict('A', 'B', behind).startswith('No: A is worse')
    mixed = {'knn': ahead['knn'], 'linear': behind['linear']}
    assert verdict('A', 'B', mixed).startswith('It depends')
    assert [outcome(leads) for leads in (same, ahead, behind, mixed)] == [SAME, YES, NO, MIXED]
    late = {'knn': same['knn'], 'linear': ahead['linear']}  # the decisive protocol is named
    assert f'{ahead["linear"].mean:+.1f} points of linear' in verdict('A', 'B', late)
    good, _ = judged['knn']
    assert accuracy(good).mean == pytest.approx(100 * good.mean())


def test_the_answer_about_several():
    for outcomes, start in (
        ({'B': YES, 'C': YES}, 'Yes: A is better than each of B, C.'),
        ({'B': YES, 'C': SAME}, 'In part: A is better than B, but not than C.'),
        ({'B': SAME, 'C': SAME}, 'No difference between A and any of B, C can be seen.'),
        ({'B': NO, 'C': MIXED}, 'No: A is not better than any of B, C.'),
    ):
        assert answer('A', outcomes) == start
