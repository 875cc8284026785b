"""The truncated triplet loss as pure functions, in the paper's units.

d(a, b) = -cos(a, b). The negatives of an anchor are sorted by ascending distance, so rank 1 is the
hardest. The deputy is the mean over a window of ranks (lo, hi), 1-based and inclusive, and

    L = max(γ·d_pos - d_deputy, C)        with the floor C = ``margin``.

The released code's value of one direction is 2·max(l, -50) + 100, where l = γ·d_pos - d_deputy.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ttl_mm.errors import UserError

Ranks = tuple[int, int] | str

#: per anchor the nearest negative farther away than its positive
SEMI_HARD = 'semi-hard'
#: the mean over all negatives
ALL = 'all'
_REDUCTIONS = {'mean': Tensor.mean, 'sum': Tensor.sum, 'none': lambda loss: loss}


def check_ranks(ranks: Ranks) -> Ranks:
    """Return ``ranks`` if they name a deputy, else raise with the value found."""
    if isinstance(ranks, str):
        if ranks not in (SEMI_HARD, ALL):
            raise UserError(f'ranks={ranks!r}: use (lo, hi), {SEMI_HARD!r} or {ALL!r}.')
        return ranks
    valid = (
        isinstance(ranks, Sequence)
        and len(ranks) == 2
        and all(isinstance(rank, int) for rank in ranks)
        and 1 <= ranks[0] <= ranks[1]
    )
    if not valid:
        raise UserError(f'ranks={ranks!r}: use two integers 1 <= lo <= hi, such as (2, 10).')
    return tuple(ranks)


def clamp_ranks(ranks: tuple[int, int], num_negatives: int) -> tuple[int, int]:
    """The part of a window that exists among ``num_negatives``; its nearest rank if none does."""
    lo, hi = (max(1, min(rank, num_negatives)) for rank in ranks)
    return lo, hi


def deputy_ranks(
    num_negatives: int, k: int | None = None, smoothed: bool = False
) -> tuple[int, int]:
    """The window of ranks of a deputy, clamped to the negatives there are.

    rank-k is (k, k); smoothed rank-k is (2, 2k + 1), the mean of 2k negatives without the hardest;
    ``k=None`` is the paper's k = m/2, the lower median (52 for 103 negatives).
    """
    if k is None:
        if smoothed:
            raise UserError('smoothed=True with k=None: set k, since ranks 2..2k+1 depend on it.')
        k = (num_negatives + 1) // 2
    elif not isinstance(k, int) or k < 1:
        raise UserError(f'k={k!r}: a rank is an integer, and the hardest negative is rank 1.')
    return clamp_ranks((2, 2 * k + 1) if smoothed else (k, k), num_negatives)


def deputy_distance(negatives: Tensor, positives: Tensor, ranks: Ranks, count: int) -> Tensor:
    """Distance of every anchor to its deputy.

    ``negatives`` is (N, M), and the ``count`` smallest entries of a row are its negatives;
    ``positives`` is (N,) and decides which of them are semi-hard.
    """
    if ranks == SEMI_HARD:
        nearer = (negatives <= positives[:, None]).sum(dim=1)  # (N,)
        ascending = negatives.topk(count, largest=False).values  # (N, count)
        return ascending.gather(1, nearer.clamp(max=count - 1)[:, None]).squeeze(1)
    lo, hi = (1, count) if ranks == ALL else clamp_ranks(ranks, count)
    return negatives.topk(hi, largest=False).values[:, lo - 1 :].mean(dim=1)  # (N,)


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
            other rows are its negatives. A row with NaN is nobody's negative.
        ranks: (lo, hi), 'semi-hard' or 'all'; a window beyond the M - 1 negatives is clamped.
        gamma: the weight of the positive.
        margin: the floor C. A row at the floor has no gradient.
        deputy_ceiling: a deputy beyond this distance is not pushed any further.
        reduction: 'mean' (rows at the floor count), 'sum' or 'none'.
        offset: the first positive, where ``key`` was gathered from several processes.

    Returns:
        A scalar, or (N,) with ``reduction='none'``. Without any negative it is zero.
    """
    if reduction not in _REDUCTIONS:
        raise UserError(f'reduction={reduction!r}: use one of {", ".join(_REDUCTIONS)}.')
    reduce = _REDUCTIONS[reduction]
    dtype = torch.promote_types(query.dtype, torch.float32)
    q = F.normalize(query.to(dtype), dim=1)  # (N, D)
    z = F.normalize(key.detach().to(dtype), dim=1)  # (M, D)
    n, m = len(q), len(z) - 1
    if m < 1:
        return reduce(q.sum(dim=1) * 0)

    d_pos = -(q * z[offset : offset + n]).sum(dim=1)  # (N,)
    broken = z.isnan().any(dim=1)  # (M,), kept out of the matrix product and so of its gradient
    distances = -(q @ z.masked_fill(broken[:, None], 0).T)  # (N, M)
    rows = torch.arange(n, device=q.device)[:, None]
    is_positive = rows + offset == torch.arange(m + 1, device=q.device)  # (N, M)
    d_neg = distances.masked_fill(is_positive | broken, torch.inf)

    d_dep = deputy_distance(d_neg, distances.diagonal(offset), ranks, count=m)
    if deputy_ceiling is not None:
        d_dep = d_dep.clamp(max=deputy_ceiling)
    loss = gamma * d_pos - d_dep
    return reduce(torch.where(loss <= margin, margin, loss))
