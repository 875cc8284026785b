"""Few labels a class: a linear SVM on frozen features, over repeated draws."""

from collections.abc import Sequence

import numpy as np

from ttl_mm.errors import UserError

SHOTS = (1, 2, 4, 8, 16, 32, 64, 96)


def low_shot(
    train_features, train_labels, test_features, test_labels,
    shots: Sequence[int] = SHOTS, draws: int = 5, cost: float = 1.0, seed: int = 0,
) -> dict[int, np.ndarray]:  # fmt: skip
    """Top-1 accuracies in percent, (draws,) for each number of labeled images per class.

    The mean of the drawn features is taken off, then features are scaled to length 1: pooled
    features share a large mean, which would leave little for the margin. The classifier is
    scikit-learn's LinearSVC, one against the rest, with a fixed ``cost``: nothing is chosen by
    the test set. Numbers of shots that the smallest class does not have are left out.

    >>> features, labels = np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4)
    >>> low_shot(features, labels, features, labels, shots=(1,), draws=2)
    {1: array([100., 100.])}
    """
    from sklearn.preprocessing import normalize  # half a second, which only this needs
    from sklearn.svm import LinearSVC

    labels, truth = np.asarray(train_labels), np.asarray(test_labels)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise UserError(f'the training set has {len(classes)} class: an SVM needs two.')
    possible = [shot for shot in shots if shot <= counts.min()]
    if not possible:
        raise UserError(
            f'class {classes[counts.argmin()]} has {counts.min()} training images, fewer than the '
            f'{min(shots)} of the smallest draw: add images or choose fewer shots.'
        )
    test = np.asarray(test_features, np.float64)
    accuracies = {shot: np.empty(draws) for shot in possible}
    for draw in range(draws):
        rng = np.random.default_rng((seed, draw))
        order = [rng.permutation(np.flatnonzero(labels == name)) for name in classes]
        for shot in possible:  # a larger draw contains the smaller ones
            chosen = np.sort(np.concatenate([members[:shot] for members in order]))
            drawn = np.asarray(train_features[chosen], np.float64)
            mean = drawn.mean(0)
            svm = LinearSVC(C=cost, random_state=0, max_iter=10_000)
            svm.fit(normalize(drawn - mean), labels[chosen])
            accuracies[shot][draw] = 100 * np.mean(svm.predict(normalize(test - mean)) == truth)
    return accuracies
