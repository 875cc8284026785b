"""Are the features of one network better than those of another? By how much, and how surely?

All contestants get the same images, the same splits and the same draws of training images. What is
compared is which test images each one classifies correctly, image by image.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from ttl_mm.evaluation.feature_file import Features
from ttl_mm.evaluation.knn import knn_classify
from ttl_mm.evaluation.linear import linear_classify

KEPT = 0.8  # share of every class that a draw trains on
NEIGHBORS = 20
SHOTS = 5  # labeled images per class of the low-shot protocol
RESAMPLES = 2000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean with the ends of its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def draw_rows(labels: np.ndarray, seed: int, per_class: int | None = None) -> np.ndarray:
    """Rows of a draw of training images: of every class four fifths, or ``per_class``."""
    rng = np.random.default_rng(seed)
    chosen = []
    for name in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == name))
        count = max(1, round(KEPT * len(members))) if per_class is None else per_class
        chosen.append(members[:count])
    return np.sort(np.concatenate(chosen))


def _knn(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    return knn_classify(train, labels, test, min(NEIGHBORS, len(train)))


def _low_shot(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    mean = train.mean(axis=0)  # as in ttl_mm.evaluation.lowshot
    svm = LinearSVC(C=1.0, random_state=0, max_iter=10_000)
    svm.fit(normalize(train - mean), labels)
    return svm.predict(normalize(test - mean))


class Protocol(NamedTuple):
    """How features are judged."""

    title: str
    classify: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    per_class: int | None = None  # images of every class to train on; None: four fifths


PROTOCOLS = {
    'knn': Protocol(f'kNN, {NEIGHBORS} neighbors', _knn),
    'linear': Protocol('linear', linear_classify),
    'lowshot': Protocol(f'SVM, {SHOTS} images a class', _low_shot, SHOTS),
}


def correct_images(train: Features, test: Features, protocol: str, seeds: int) -> np.ndarray:
    """(seeds, Q) booleans: whether a classifier trained on a draw labels a test image correctly."""
    rule, rows = PROTOCOLS[protocol], []
    for seed in range(seeds):
        drawn = draw_rows(train.labels, seed, rule.per_class)
        some = np.asarray(train.features[drawn], np.float32)
        found = rule.classify(some, train.labels[drawn], np.asarray(test.features))
        rows.append(np.asarray(found) == test.labels)
    return np.stack(rows)


def accuracy(correct: np.ndarray) -> Interval:
    """Accuracy in percent of (seeds, Q) booleans, over other draws and other test images."""
    return resampled(100.0 * correct)


def lead(correct: np.ndarray, other: np.ndarray) -> Interval:
    """Points of accuracy by which the first is ahead, both judged on the same draws and images."""
    return resampled(100.0 * (correct.astype(float) - other))


def resampled(values: np.ndarray, seed: int = 0) -> Interval:
    """The mean of (S, Q) values; its interval by drawing rows and columns again, 2000 times."""
    rng = np.random.default_rng(seed)
    count, images = values.shape
    means = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows = values[rng.integers(count, size=count)].mean(axis=0)
        means[i] = rows[rng.integers(images, size=images)].mean()
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def verdict(name: str, other: str, leads: Mapping[str, Interval]) -> str:
    """The first sentence of the page: whether ``name`` is better than ``other``.

    It is better where no protocol finds it worse and at least one finds it better.
    """
    better = [protocol for protocol, found in leads.items() if found.low > 0]
    worse = [protocol for protocol, found in leads.items() if found.high < 0]
    some = next(iter(leads.values()))
    points = f'{some.mean:+.1f} points of {PROTOCOLS[next(iter(leads))].title}'
    points += f' (95 % interval {some.low:+.1f} to {some.high:+.1f})'
    if better and worse:
        gain, loss = (', '.join(names) for names in (better, worse))
        return f'It depends: {name} is better than {other} by {gain} and worse by {loss}.'
    if better:
        return f'Yes: {name} is better than {other}, {points}.'
    if worse:
        return f'No: {name} is worse than {other}, {points}.'
    return f'No difference between {name} and {other} can be seen: {points}.'
