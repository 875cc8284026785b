"""Gauges of under- and over-clustering, for features whose true classes are known.

A = all batches; B = the batch holds two images of one class; Omega = one such pair is used as a
negative pair. Omega implies B.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, pdist


class BatchEvents(NamedTuple):
    """Whether one batch holds the events of the paper."""

    omega: bool
    b: bool


def class_divergence(features: Tensor, labels: Tensor, spread: str = 'within') -> float:
    r"""Mean distance between the centers of the classes, at equal spread of the features.

    .. math:: \frac{1}{s} \operatorname{mean}_{c < c'} \lVert \mu_c - \mu_{c'} \rVert

    Small values say under-clustering. Only ratios between methods have a meaning.

    Args:
        features: (N, D).
        labels: (N,), at least two classes.
        spread: What s is, as a root mean square per dimension: ``'within'`` the deviation from the
            center of the own class, ``'total'`` the deviation from the mean of all features.

    >>> class_divergence(torch.tensor([[0.0], [2], [10], [12]]), torch.tensor([0, 0, 1, 1]))
    10.0
    """
    if spread not in ('within', 'total'):
        raise ValueError(f"spread is 'within' or 'total', not {spread!r}")
    features, labels = torch.as_tensor(features), torch.as_tensor(labels)
    _check_rows(labels, features)
    features = features.detach().double()
    features = features - features.mean(0)  # (N, D); keeps the differences of centers exact
    classes, members = labels.unique(return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f'a divergence needs at least two classes, found {len(classes)}')
    sums = features.new_zeros(len(classes), features.shape[1]).index_add_(0, members, features)
    centers = sums / members.bincount()[:, None]  # (C, D)
    deviations = features - centers[members] if spread == 'within' else features
    distance = pdist(centers).mean()
    return (distance / deviations.square().mean().sqrt()).item() if distance > 0 else 0.0


def false_negatives_by_rank(query: Tensor, key: Tensor, labels: Tensor, offset: int = 0) -> Tensor:
    """Which negatives are false: entry (i, r) tells whether rank r + 1 of anchor i has its label.

    Args:
        query: (N, D). Row i is an anchor.
        key: (M, D). Row ``offset + i`` is the positive of anchor i, all other rows its negatives.
        labels: (M,), of the keys.
        offset: The first positive, where the keys were gathered from several processes.

    Returns:
        (N, M - 1) booleans, ranks ascending in the distance -cos: column 0 is the hardest.

    >>> points = torch.tensor([[1.0, 0], [0.9, 0.1], [0, 1]])
    >>> false_negatives_by_rank(points, points, torch.tensor([0, 1, 0]))
    tensor([[False,  True],
            [False, False],
            [False,  True]])
    """
    query, key, labels = map(torch.as_tensor, (query, key, labels))
    _check_rows(labels, key)
    similarity = normalize(query.detach().float()) @ normalize(key.detach().float()).T  # (N, M)
    similarity.diagonal(offset).fill_(-torch.inf)
    negatives = similarity.argsort(dim=1, descending=True, stable=True)[:, :-1]
    return labels[negatives] == labels[offset : offset + len(query), None]


def false_negative_frequency(
    query: Tensor, key: Tensor, labels: Tensor, ranks: tuple[int, int]
) -> BatchEvents:
    """Whether one batch holds Omega and B when the negatives of ``ranks`` are used.

    The mean of ``omega`` over batches is Pr(Omega|A), that over the batches with ``b`` Pr(Omega|B).

    Args:
        query: (N, D) anchors.
        key: (N, D); row i is the positive of anchor i, all other rows its negatives.
        labels: (N,) true classes.
        ranks: (lo, hi), 1-based and inclusive, as in the loss; (k, k) is rank-k.

    >>> points = torch.tensor([[1.0, 0], [0.9, 0.1], [0, 1]])
    >>> false_negative_frequency(points, points, torch.tensor([0, 1, 0]), ranks=(1, 1))
    BatchEvents(omega=False, b=True)
    """
    false = false_negatives_by_rank(query, key, labels)
    return BatchEvents(omega=bool(_selected(false, ranks).any()), b=bool(false.any()))


class Frequency(NamedTuple):
    """Pr(Omega|A) and Pr(Omega|B) over some batches; NaN where no batch holds B."""

    omega_given_a: float
    omega_given_b: float


class RankExplorer:
    """False negatives at every rank 1..m, gathered batch by batch in one pass.

    All batches have the same size; the frequency of any ranks is known afterwards.
    """

    def __init__(self) -> None:
        # per batch (m,): the share of the anchors with a false negative, and whether any has one
        self._shares: list[Tensor] = []
        self._holds: list[Tensor] = []

    def add(self, query: Tensor, key: Tensor, labels: Tensor, offset: int = 0) -> None:
        """Add one batch; arguments as in :func:`false_negatives_by_rank`."""
        false = false_negatives_by_rank(query, key, labels, offset).cpu()
        if self._holds and len(self._holds[0]) != false.shape[1]:
            raise ValueError(
                f'a batch of {len(key)} images after batches of {len(self._holds[0]) + 1}: '
                'ranks compare in batches of one size only'
            )
        self._shares.append(false.double().mean(0))
        self._holds.append(false.any(0))

    def __len__(self) -> int:
        return len(self._holds)

    def merge(self, others: Iterable['RankExplorer']) -> None:
        """Add the batches of other explorers, such as those of other processes."""
        for other in others:
            self._shares += other._shares
            self._holds += other._holds

    @property
    def rate(self) -> Tensor:
        """(m,): share of the anchors whose negative at rank 1..m is false."""
        return torch.stack(self._shares).mean(0)

    def frequency(self, ranks: tuple[int, int]) -> Frequency:
        """Frequencies of batches with a false negative among ``ranks`` = (lo, hi)."""
        holds = torch.stack(self._holds)  # (batches, m)
        omega, b = _selected(holds, ranks).any(1), holds.any(1)
        return Frequency(omega.double().mean().item(), omega[b].double().mean().item())


def _selected(by_rank: Tensor, ranks: tuple[int, int]) -> Tensor:
    """Columns of the ranks lo..hi, clamped to those that the batch has, as the loss does."""
    low, high = ranks
    if not 1 <= low <= high:
        raise ValueError(f'ranks are (lo, hi) with 1 <= lo <= hi, got {ranks}')
    high = min(high, by_rank.shape[1])
    return by_rank[:, min(low, high) - 1 : high] if high else by_rank


def _check_rows(labels: Tensor, features: Tensor) -> None:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            f'labels of shape {tuple(labels.shape)} do not belong to features of shape '
            f'{tuple(features.shape)}: one label per row is needed'
        )
