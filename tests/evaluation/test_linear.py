"""The linear probe against scikit-learn's logistic regression without penalty."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ttl_mm.errors import UserError
from ttl_mm.evaluation import linear, linear_classify


def split(seed):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order].astype(np.float32), labels[order]
    return images[:1200], labels[:1200], images[1200:], labels[1200:]


def test_within_half_a_point_of_scikit_learn_on_digits(monkeypatch):
    monkeypatch.setattr(linear, 'CHUNK', 500)
    for seed, scale in product(range(3), (1.0, 1 / 16)):
        train_x, train_y, test_x, test_y = split(seed)
        train_x, test_x = train_x * scale, test_x * scale
        reference = LogisticRegression(C=np.inf, max_iter=1000).fit(train_x, train_y)
        found = np.mean(linear_classify(train_x, train_y, test_x) == test_y)
        assert found == pytest.approx(reference.score(test_x, test_y), abs=0.005), (seed, scale)


def test_finds_the_optimum_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 5))
    y = np.argmax(x[:, :3] + rng.gumbel(size=(600, 3)), axis=1)  # not separable: one optimum
    weight = linear.fit_logistic(x, y, 3, 1000, 'cpu').numpy()
    reference = LogisticRegression(C=np.inf, tol=1e-6, max_iter=1000).fit(x, y)
    for found, expected in ((weight[:-1].T, reference.coef_), (weight[-1], reference.intercept_)):
        # weights are defined up to a constant over the classes
        np.testing.assert_allclose(found - found.mean(0), expected - expected.mean(0), atol=2e-3)


def test_kinds_of_labels_are_kept_and_a_single_class_refused():
    train_x, train_y, test_x, _ = split(0)
    by_number = linear_classify(train_x, train_y, test_x)
    names = np.array(list('jihgfedcba'))
    expected = linear_classify(train_x, names[train_y], test_x)
    assert np.mean(names[by_number] == expected) > 0.99
    found = linear_classify(*map(torch.from_numpy, (train_x, train_y, test_x)))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), by_number)
    with pytest.raises(UserError, match='has 1 class'):
        linear_classify(np.ones((4, 2)), np.zeros(4), np.ones((2, 2)))
