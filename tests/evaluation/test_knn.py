"""kNN against scikit-learn and against a full sort that follows the stated rule of ties.

test_neighbor_search.py checks which neighbors are found, near-ties and duplicates included.
"""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from ttl_mm.errors import UserError
from ttl_mm.evaluation import knn_classify, knn_sweep, neighbor_search


@pytest.fixture(autouse=True)
def _several_panels(monkeypatch):
    monkeypatch.setattr(neighbor_search, 'PANEL', 100)


def by_sklearn(train, labels, test, k, temperature):
    model = KNeighborsClassifier(
        k, metric='cosine', weights=lambda d: np.exp((1 - d) / temperature), algorithm='brute'
    )
    return model.fit(train.astype(np.float64), labels).predict(test.astype(np.float64))


def by_rule(train, labels, test, k, temperature):
    """Full float64 similarities, sorted by (similarity, index); equal votes: smallest label."""
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, test)]
    predicted = []
    for q in unit[1]:
        similarity = np.array([np.dot(q, x) for x in unit[0]])
        nearest = sorted(range(len(train)), key=lambda i: (-similarity[i], i))[:k]
        votes = dict.fromkeys(sorted(set(labels)), 0.0)
        for i in nearest:
            votes[labels[i]] += np.exp(similarity[i] / temperature)
        predicted.append(max(votes, key=votes.get))
    return np.array(predicted)


def random_features(rng, count, dim=24):
    return rng.standard_normal((count, dim)).astype(np.float32)


def test_equals_sklearn():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 7, 1000) * 3 - 5  # neither dense nor positive
    noise = random_features(rng, 1000), labels, random_features(rng, 250)
    images, names = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    digits = images[:1200], names[:1200], images[1200:]
    for data, k, t in (
        *((noise, k, t) for k, t in ((1, 0.07), (20, 0.07), (200, 0.5))),
        *((digits, k, 0.07) for k in (1, 5, 20, 200)),
    ):
        np.testing.assert_array_equal(knn_classify(*data, k, t), by_sklearn(*data, k, t))


def test_ties_go_to_the_earlier_sample_and_the_smaller_label():
    rng = np.random.default_rng(1)
    # 0/1 vectors of 4 ones: few distinct similarities, all exact in binary, many duplicates
    patterns = np.array([p for p in np.ndindex(*(2,) * 8) if sum(p) == 4], dtype=np.float32)
    train = patterns[rng.integers(0, len(patterns), 700)]
    labels = rng.integers(0, 5, 700)
    test = patterns[rng.integers(0, len(patterns), 120)]
    for k in (1, 3, 10, 50):
        expected = by_rule(train, labels, test, k, 0.25)
        np.testing.assert_array_equal(knn_classify(train, labels, test, k, 0.25), expected)


def test_sweep_equals_single_settings_and_kinds_are_kept():
    rng = np.random.default_rng(4)
    train, test = random_features(rng, 500), random_features(rng, 210)
    labels = rng.integers(0, 4, 500)
    sweep = knn_sweep(train, labels, test, ks=[40, 3], temperatures=[0.07, 1.0])
    assert set(sweep) == {(40, 0.07), (40, 1.0), (3, 0.07), (3, 1.0)}
    for (k, t), predicted in sweep.items():
        assert isinstance(predicted, np.ndarray)
        np.testing.assert_array_equal(predicted, knn_classify(train, labels, test, k, t))
    tensors = [torch.from_numpy(x) for x in (train, labels, test)]
    predicted = knn_classify(*tensors, k=3)
    assert isinstance(predicted, torch.Tensor)
    np.testing.assert_array_equal(predicted.numpy(), sweep[3, 0.07])
    names = np.array(['ant', 'bee', 'cat', 'dog'])
    by_name = knn_classify(train, names[labels], test, k=3)
    np.testing.assert_array_equal(by_name, names[sweep[3, 0.07]])


def test_tiny_temperatures_extreme_lengths_and_zero_vectors(tmp_path):
    rng = np.random.default_rng(5)
    train, test = random_features(rng, 300), random_features(rng, 40)
    labels = rng.integers(0, 4, 300)
    nearest = knn_classify(train, labels, test, k=1)
    np.testing.assert_array_equal(knn_classify(train, labels, test, 20, 1e-4), nearest)
    expected = knn_classify(train, labels, test)
    for scale in (1e-30, 1e30):
        lengths = rng.uniform(0.5, 2, (300, 1)) * scale
        found = knn_classify((train * lengths).astype(np.float32), labels, test)
        np.testing.assert_array_equal(found, expected)
    np.save(tmp_path / 'a.npy', np.array([[0, 0], [-1, 0], [1, 0]], np.float16))
    train = np.load(tmp_path / 'a.npy', mmap_mode='r')
    test = np.array([[2.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    # the zero vector is at cosine 0 to all three: the first one wins
    np.testing.assert_array_equal(knn_classify(train, [7, 8, 9], test, k=1), [9, 8, 7])


def test_bad_input_is_one_sentence():
    x = {'train_features': torch.ones(10, 4), 'test_features': torch.ones(3, 4)}
    good = {**x, 'train_labels': torch.zeros(10), 'k': 5}
    for change, message in (
        ({'k': 0}, 'k is 0'),
        ({'k': 11}, 'k is 11: choose 1 to 10'),
        ({'temperature': 0.0}, 'temperature is 0.0'),
        ({'test_features': torch.zeros(3, 5)}, r'\(10, 4\).*\(3, 5\)'),
        ({'test_features': torch.zeros(0, 4)}, '0 test features'),
        ({'train_labels': torch.zeros(9)}, '10 training features have 9 labels'),
        ({'test_features': torch.full((3, 4), torch.nan)}, 'row 0 of the test features'),
    ):
        with pytest.raises(UserError, match=message):
            knn_classify(**{**good, **change})
