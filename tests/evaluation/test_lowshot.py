import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from ttl_mm.errors import UserError
from ttl_mm.evaluation.lowshot import low_shot


def digits():
    images, labels = load_digits(return_X_y=True)
    return images[:1200], labels[:1200], images[1200:], labels[1200:]


def test_all_images_of_a_class_give_the_plain_svm():
    train_x, train_y, test_x, test_y = digits()
    chosen = np.sort(np.concatenate([np.flatnonzero(train_y == c)[:40] for c in range(10)]))
    train_x, train_y = train_x[chosen], train_y[chosen]
    found = low_shot(train_x, train_y, test_x, test_y, shots=[40], draws=2)
    mean = train_x.mean(0)
    svm = LinearSVC(C=1.0, random_state=0, max_iter=10_000)
    svm.fit(normalize(train_x - mean), train_y)
    expected = 100 * svm.score(normalize(test_x - mean), test_y)
    assert found[40].tolist() == [expected, expected]


def test_more_labels_help_and_draws_repeat_as_far_as_classes_go():
    found = low_shot(*digits(), shots=[1, 8, 64], draws=3)
    assert found[1].mean() + 10 < found[8].mean() < found[64].mean()
    assert len(set(found[1])) > 1
    again, other = (low_shot(*digits(), shots=[1], draws=3, seed=seed) for seed in (0, 1))
    assert found[1].tolist() == again[1].tolist() != other[1].tolist()
    train_x, train_y, *test = digits()
    few = np.sort(np.concatenate([np.flatnonzero(train_y == c)[: 4 + c] for c in range(10)]))
    assert list(low_shot(train_x[few], train_y[few], *test, draws=1)) == [1, 2, 4]
    with pytest.raises(UserError, match='class 0 has 4 training images, fewer than the 8'):
        low_shot(train_x[few], train_y[few], *test, shots=[8])
