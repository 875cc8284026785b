"""Are the features of one network better than those of another? By how much, and how surely?

All contestants get the same images, the same splits and the same draws of training images. What is
compared is which test images each one classifies correctly, image by image.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

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
    from sklearn.preprocessing import normalize  # half a second, which only this needs
    from sklearn.svm import LinearSVC

    svm = LinearSVC(C=1.0, random_state=0, max_iter=10_000)
    svm.fit(normalize(train - mean), labels)
    return svm.predict(normalize(test - mean))


class Protocol(NamedTuple):
    """How features are judged, or the whole network where ``classify`` is None."""

    title: str
    classify: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None
    per_class: int | None = None  # images of every class to train on; None: four fifths


PROTOCOLS = {
    'knn': Protocol(f'kNN, {NEIGHBORS} neighbors', _knn),
    'linear': Protocol('linear', linear_classify),
    'lowshot': Protocol(f'SVM, {SHOTS} images a class', _low_shot, SHOTS),
    'finetune': Protocol('fine-tuning', None),
}
FROZEN = [name for name, protocol in PROTOCOLS.items() if protocol.classify]  # features suffice


def correct_images(train: Features, test: Features, protocol: str, seed: int) -> np.ndarray:
    """(Q,) booleans: whether a classifier trained on one draw labels a test image correctly."""
    rule = PROTOCOLS[protocol]
    assert rule.classify is not None
    drawn = draw_rows(train.labels, seed, rule.per_class)
    some = np.asarray(train.features[drawn], np.float32)
    found = rule.classify(some, train.labels[drawn], np.asarray(test.features))
    return np.asarray(found) == test.labels


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


YES, NO, SAME, MIXED = 'better', 'worse', 'the same', 'mixed'


def outcome(leads: Mapping[str, Interval]) -> str:
    """YES if a protocol finds the first better and none finds it worse; NO the other way round."""
    better = any(found.low > 0 for found in leads.values())
    worse = any(found.high < 0 for found in leads.values())
    return MIXED if better and worse else YES if better else NO if worse else SAME


def verdict(name: str, other: str, leads: Mapping[str, Interval]) -> str:
    """A sentence that says whether ``name`` is better than ``other``, and by how much."""
    better = [protocol for protocol, found in leads.items() if found.low > 0]
    worse = [protocol for protocol, found in leads.items() if found.high < 0]
    decisive = next(iter([*better, *worse, *leads]))
    some = leads[decisive]
    points = f'{some.mean:+.1f} points of {PROTOCOLS[decisive].title}'
    points += f' (95 % interval {some.low:+.1f} to {some.high:+.1f})'
    if better and worse:
        gain, loss = (', '.join(names) for names in (better, worse))
        return f'It depends: {name} is better than {other} by {gain} and worse by {loss}.'
    if better:
        return f'Yes: {name} is better than {other}, {points}.'
    if worse:
        return f'No: {name} is worse than {other}, {points}.'
    return f'No difference between {name} and {other} can be seen: {points}.'


def answer(name: str, outcomes: Mapping[str, str]) -> str:
    """Whether ``name`` was worth it, given its outcome against each of several others."""
    beaten = [other for other, found in outcomes.items() if found == YES]
    equal = [other for other, found in outcomes.items() if found == SAME]
    rest = [other for other in outcomes if other not in beaten]
    if not rest:
        return f'Yes: {name} is better than each of {", ".join(beaten)}.'
    if beaten:
        return (
            f'In part: {name} is better than {", ".join(beaten)}, but not than {", ".join(rest)}.'
        )
    if len(equal) == len(outcomes):
        return f'No difference between {name} and any of {", ".join(equal)} can be seen.'
    return f'No: {name} is not better than any of {", ".join(rest)}.'
