"""The truncated triplet loss L = max(γ·d_pos - d_deputy, C), as pure functions for its three steps.

1. distance: d(a, b) = -cos(a, b) of every query to every key, :func:`cosine_distances`;
2. selection: the distances of the positive and of the deputy, :func:`select_deputy`;
3. reduction: the floor C, and the mean over the batch, :func:`reduce_triplets`.

:func:`plain_truncated_triplet_loss` takes them one after the other. Training calls
:func:`truncated_triplet_loss`: the same values and gradients, faster.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ttl_mm.errors import UserError
from ttl_mm.models.fast_loss import FastTriplets

#: (lo, hi), counted from 1 and inclusive, or one of the two names below
Ranks = tuple[int, int] | str
#: per anchor the nearest negative farther away than its positive; the farthest if there is none
SEMI_HARD = 'semi-hard'
ALL = 'all'  # the mean over all negatives


def cosine_distances(query: Tensor, key: Tensor) -> Tensor:
    """-cos of every query (N, D) to every key (M, D), as (N, M); a vector of zeros is at 0.

    >>> cosine_distances(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [1.0, 1.0]]))
    tensor([[-1.0000, -0.7071]])
    """
    return -F.normalize(query) @ F.normalize(key).T


def select_deputy(distances: Tensor, ranks: Ranks, offset: int = 0) -> tuple[Tensor, Tensor]:
    """The distances (N,) of the positives and (N,) of the deputies, from all distances (N, M).

    Column ``offset + i`` is the positive of row i, the other M - 1 columns are its negatives. The
    nearest negative has rank 1, and NaN comes last. The deputy is the mean over ``ranks``.

    >>> select_deputy(torch.tensor([[-0.9, 0.3, -0.5, 0.1]]), ranks=(1, 2))
    (tensor([-0.9000]), tensor([-0.2000]))
    """
    positive = distances.diagonal(offset)  # (N,)
    is_positive = torch.zeros_like(distances, dtype=torch.bool)
    is_positive.diagonal(offset).fill_(True)
    negatives = distances[~is_positive].view(len(distances), -1).sort(dim=1).values  # (N, M - 1)
    if ranks == SEMI_HARD:
        nearer = (negatives <= positive[:, None]).sum(dim=1)  # the next one is beyond the positive
        farthest = (~negatives.isnan()).sum(dim=1) - 1
        chosen = torch.minimum(nearer, farthest).clamp(min=0)
        return positive, negatives.gather(1, chosen[:, None])[:, 0]
    lo, hi = rank_window(ranks, negatives.shape[1])
    return positive, negatives[:, lo - 1 : hi].mean(dim=1)


def reduce_triplets(loss: Tensor, margin: float = -100.0, reduction: str = 'mean') -> Tensor:
    """Raise the loss (N,) of every triplet to the floor ``margin``, then reduce it.

    A triplet at the floor has no gradient, and counts in the mean.

    >>> reduce_triplets(torch.tensor([-3.0, 1.0]), margin=-1.0)
    tensor(0.)
    """
    if reduction not in ('mean', 'sum', 'none'):
        raise UserError(f"reduction={reduction!r}: use 'mean', 'sum' or 'none'.")
    loss = F.threshold(loss, margin, margin)
    return loss if reduction == 'none' else getattr(loss, reduction)()


def plain_truncated_triplet_loss(
    query: Tensor,
    key: Tensor,
    ranks: Ranks,
    gamma: float = 2.0,
    margin: float = -100.0,
    deputy_ceiling: float | None = None,
    reduction: str = 'mean',
    offset: int = 0,
) -> Tensor:
    """The definition of :func:`truncated_triplet_loss`, for at least one negative; slower."""
    distances = cosine_distances(query, key.detach())  # (N, M)
    positive, deputy = select_deputy(distances, ranks, offset)  # (N,), (N,)
    if deputy_ceiling is not None:
        deputy = deputy.clamp(max=deputy_ceiling)
    return reduce_triplets(gamma * positive - deputy, margin, reduction)


def truncated_triplet_loss(
    query: Tensor,
    key: Tensor,
    ranks: Ranks,
    gamma: float = 2.0,
    margin: float = -100.0,
    deputy_ceiling: float | None = None,
    reduction: str = 'mean',
    offset: int = 0,
) -> Tensor:
    """max(γ·d_pos - d_deputy, C) of every query.

    Args:
        query: (N, D) predictions; they alone get a gradient.
        key: (M, D) target projections, M >= N. Row ``offset + i`` is the positive of query i, all
            other rows are its negatives. A key with NaN is farther away than any other: the loss
            is NaN where it is the positive, or where the ranks reach it.
        ranks: (lo, hi), 'semi-hard' or 'all'; ranks beyond the M - 1 negatives are clamped.
        gamma: the weight of the positive.
        margin: the floor C. A row at the floor has no gradient.
        deputy_ceiling: a deputy beyond this distance is not pushed any further.
        reduction: 'mean' (rows at the floor count), 'sum' or 'none', which gives (N,).
        offset: the first positive, where ``key`` was gathered from several processes.

    Without any negative the loss is zero.

    >>> query = key = torch.eye(4)  # every positive at -1, every negative at 0
    >>> truncated_triplet_loss(query, key, ranks=(2, 3))
    tensor(-2.)
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(dtype), key.detach().to(dtype)
    if len(key) < 2:
        return reduce_triplets(query.sum(dim=1) * 0, -1.0, reduction)
    window = None if ranks == SEMI_HARD else rank_window(ranks, len(key) - 1)
    loss = FastTriplets.apply(query, key, window, gamma, offset)  # (N,)
    if deputy_ceiling is not None:  # γ·d_pos - min(d_deputy, ceiling)
        d_pos = -F.cosine_similarity(query, key[offset : offset + len(query)])
        loss = torch.maximum(loss, gamma * d_pos - deputy_ceiling)
    return reduce_triplets(loss, margin, reduction)


def rank_window(ranks: Ranks, num_negatives: int) -> tuple[int, int]:
    """The ranks (lo, hi) clamped to those that exist."""
    if isinstance(ranks, str):
        if ranks != ALL:
            raise UserError(f'ranks={ranks!r}: use (lo, hi), {SEMI_HARD!r} or {ALL!r}.')
        ranks = (1, num_negatives)
    lo, hi = ranks
    return max(1, min(lo, num_negatives)), max(1, min(hi, num_negatives))


def is_rank(value: object) -> bool:
    """Whether the value is an integer from 1, the rank of the hardest negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def deputy_ranks(
    num_negatives: int, k: int | None = None, smoothed: bool = False
) -> tuple[int, int]:
    """The ranks (lo, hi) of one of the paper's deputies, clamped to those that exist.

    Rank-k is (k, k). Smoothed rank-k is (2, 2k + 1), the mean of 2k negatives without the hardest.
    ``k=None`` is the paper's k = m/2, the lower median.

    >>> deputy_ranks(103), deputy_ranks(103, k=5), deputy_ranks(103, k=5, smoothed=True)
    ((52, 52), (5, 5), (2, 11))
    """
    if k is None:
        if smoothed:
            raise UserError('smoothed=True with k=None: set k, since ranks 2..2k+1 depend on it.')
        k = (num_negatives + 1) // 2
    elif not is_rank(k):
        raise UserError(f'k={k!r}: a rank is an integer, and the hardest negative is rank 1.')
    return rank_window((2, 2 * k + 1) if smoothed else (k, k), num_negatives)
