"""All clustering gauges of features with labels, for batches of a chosen size."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ttl_mm.errors import UserError
from ttl_mm.gauges.binomial_tail import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.clustering import RankExplorer, class_divergence
from ttl_mm.gauges.collapse import effective_rank, feature_std


@dataclass
class Analysis:
    """What was measured of some features; rates are per rank 1..m."""

    images: int
    classes: int
    shares: list[float]  # of the images, in each class
    batch_size: int  # m + 1
    divergence: float  # of the classes, at equal spread within them
    divergence_total: float  # the same at equal total spread
    std: float  # of the unit features, averaged over dimensions
    effective_rank: float
    rates: list[float]  # share of the anchors whose negative at a rank is false
    perfect_rates: list[float]  # the same for features that know the classes
    chance: float  # the same for a random pick
    frequencies: dict[tuple[int, int], tuple[float, ...]]  # (lo, hi): Pr(Omega|A), Pr(Omega|B)
    measured_k: int  # first rank at which negatives are false no more often than a random pick
    safe_k: int  # smallest rank whose risk under perfect features is within the bound
    risk: float  # that bound


def analyze_features(
    features: Tensor,
    labels: Tensor,
    batch_size: int = 104,
    ranks: Sequence[tuple[int, int]] | None = None,
    num_batches: int = 500,
    risk: float = 1e-3,
    seed: int = 0,
    query: Tensor | None = None,
    key: Tensor | None = None,
) -> Analysis:
    """Measure every gauge on ``num_batches`` random batches of the features.

    The positive of an anchor is not among its negatives, so one view of every image is enough.

    Args:
        features: (N, D).
        labels: (N,), at least two classes.
        batch_size: Images of a batch on one device while training.
        ranks: Deputies to measure; hardest, 5, 2..10 and m/2 by default.
        num_batches: How many batches are drawn.
        risk: Bound on the over-clustering risk for the suggested k.
        seed: Of the draw.
        query: (N, E) anchors that are ranked, such as predictions; the features by default.
        key: (N, E) what they are ranked against, such as target projections; the same.
    """
    if not 2 <= batch_size <= len(features):
        raise UserError(
            f'batch size {batch_size} with {len(features)} images: choose 2 to {len(features)}.'
        )
    counts = labels.unique(return_counts=True)[1].double()
    if len(counts) < 2:
        raise UserError('all images have one class: clustering needs at least two.')
    m, total = batch_size - 1, len(labels)
    query = features if query is None else query
    key = features if key is None else key
    explorer = explore_ranks(query, key, labels, batch_size, num_batches, seed)
    chance = (counts * (counts - 1)).sum().item() / (total * (total - 1))
    shares = (counts / total).tolist()
    middle = (m + 1) // 2
    chosen = ranks or [(1, 1), (5, 5), (2, 10), (middle, middle)]
    rates = explorer.rate.tolist()
    return Analysis(
        images=total,
        classes=len(counts),
        shares=shares,
        batch_size=batch_size,
        divergence=class_divergence(features, labels),
        divergence_total=class_divergence(features, labels, 'total'),
        std=feature_std(features),
        effective_rank=effective_rank(features),
        rates=rates,
        perfect_rates=[overclustering_risk(m, k, shares) for k in range(1, m + 1)],
        chance=chance,
        frequencies={pair: tuple(explorer.frequency(pair)) for pair in chosen if pair[0] <= m},
        measured_k=first_rank_below(rates, chance),
        safe_k=smallest_safe_k(m, shares, risk),
        risk=risk,
    )


def explore_ranks(
    query: Tensor, key: Tensor, labels: Tensor, batch_size: int, num_batches: int, seed: int = 0
) -> RankExplorer:
    """Explore random batches; row i of ``query`` and of ``key`` are views of the same image."""
    generator = torch.Generator().manual_seed(seed)
    explorer = RankExplorer()
    for _ in range(num_batches):
        chosen = torch.randperm(len(labels), generator=generator)[:batch_size].to(query.device)
        explorer.add(query[chosen], key[chosen], labels[chosen])
    return explorer


def first_rank_below(rates: Sequence[float], level: float) -> int:
    """First rank whose rate is at most ``level``; m + 1 if none is.

    >>> first_rank_below([0.3, 0.2, 0.1], 0.2), first_rank_below([0.3, 0.2, 0.1], 0.05)
    (2, 4)
    """
    return next((rank for rank, rate in enumerate(rates, 1) if rate <= level), len(rates) + 1)
