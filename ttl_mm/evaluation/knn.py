"""Weighted k-nearest-neighbor classification.

The similarity of a query and a training sample is their cosine; the vote of a neighbor is
exp(similarity / temperature). Among labels with equal votes the smallest wins. The neighbors come
from :mod:`ttl_mm.evaluation.neighbor_search`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ttl_mm.errors import UserError
from ttl_mm.evaluation.neighbor_search import nearest_neighbors

VOTES = 1 << 23  # (query, class) sums at a time


def knn_classify(
    train_features, train_labels, test_features, k: int = 20, temperature: float = 0.07, device=None
):
    """Predict a label for every test sample by a weighted vote of its ``k`` nearest neighbors.

    Args:
        train_features: (N, D), a tensor or an array, memory-mapped if it is large.
        train_labels: (N,), anything :func:`numpy.unique` can sort.
        test_features: (Q, D).
        k: the number of neighbors.
        temperature: the vote of a neighbor is exp(cosine / temperature).
        device: where to compute; the device of ``train_features`` by default.

    Returns:
        (Q,) predicted labels: a tensor if ``train_labels`` is one, else an array.

    >>> train = np.array([[1.0, 0], [1, 0.1], [0, 1]])
    >>> knn_classify(train, ['cat', 'cat', 'dog'], np.array([[2.0, 0.3], [0.1, 5]]), k=1)
    array(['cat', 'dog'], dtype='<U3')
    """
    sweep = knn_sweep(train_features, train_labels, test_features, [k], [temperature], device)
    return sweep[k, temperature]


def knn_sweep(
    train_features, train_labels, test_features,
    ks: Sequence[int], temperatures: Sequence[float], device=None,
) -> dict:  # fmt: skip
    """Predictions for every ``(k, temperature)``, in one pass over the features.

    >>> train = np.array([[1.0, 0], [0.6, 0.8], [0, 1]])
    >>> found = knn_sweep(train, [0, 1, 1], np.array([[1.0, 0.1]]), ks=(1, 3), temperatures=(9.0,))
    >>> {k: labels.tolist() for (k, _), labels in found.items()}
    {1: [0], 3: [1]}
    """
    _check(train_features, train_labels, test_features, ks, temperatures)
    classes, codes = np.unique(_to_numpy(train_labels), return_inverse=True)
    predicted: dict[tuple, list] = {(k, t): [] for k in ks for t in temperatures}
    for similarity, index in nearest_neighbors(train_features, test_features, max(ks), device):
        neighbors = torch.from_numpy(codes).to(index.device)[index]  # (q, k)
        for k, t in predicted:
            vote = weighted_vote(similarity[:, :k], neighbors[:, :k], len(classes), t)
            predicted[k, t].append(vote.cpu().numpy())
    labels = {key: classes[np.concatenate(parts)] for key, parts in predicted.items()}
    if isinstance(train_labels, Tensor):
        return {key: torch.from_numpy(p).to(train_labels.device) for key, p in labels.items()}
    return labels


def weighted_vote(similarity: Tensor, labels: Tensor, num_classes: int, temperature: float):
    """The label (q,) with the largest sum of exp(similarity / temperature), (q, k) each.

    >>> similarity, labels = torch.tensor([[0.9, 0.8, 0.8]]), torch.tensor([[0, 1, 1]])
    >>> [weighted_vote(similarity, labels, 2, t).item() for t in (0.01, 1.0)]
    [0, 1]
    """
    weight = ((similarity - similarity[:, :1]) / temperature).exp()  # the largest is 1
    winners = []
    for w, c in zip(*(x.split(max(1, VOTES // num_classes)) for x in (weight, labels))):
        votes = w.new_zeros(len(w), num_classes)
        for j in range(w.shape[1]):  # one neighbor at a time: a fixed order of summation
            votes.scatter_add_(1, c[:, j : j + 1], w[:, j : j + 1])
        winners.append(votes.argmax(1))  # the first of equal maxima
    return torch.cat(winners)


def _check(train, labels, test, ks: Sequence[int], temperatures: Sequence[float]) -> None:
    if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
        raise UserError(
            f'training features of shape {tuple(train.shape)} and test features of shape '
            f'{tuple(test.shape)} do not belong together: extract both with the same model.'
        )
    if len(labels) != len(train):
        raise UserError(f'{len(train)} training features have {len(labels)} labels: give one each.')
    if not len(test):
        raise UserError('there are 0 test features: give at least one.')
    for k in ks:
        if not 1 <= k <= len(train):
            raise UserError(f'k is {k}: choose 1 to {len(train)}, the number of training samples.')
    for t in temperatures:
        if not t > 0:
            raise UserError(f'temperature is {t}: choose a number above 0, such as 0.07.')


def _to_numpy(labels) -> np.ndarray:
    return labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
