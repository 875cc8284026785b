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
from torch.autograd.function import once_differentiable

from ttl_mm.errors import UserError

Ranks = tuple[int, int] | str

#: per anchor the nearest negative farther away than its positive
SEMI_HARD = 'semi-hard'
#: the mean over all negatives
ALL = 'all'
#: the integers with as many bits
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
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


def deputy_window(
    gaps: Tensor, positives: Tensor, ranks: Ranks, count: int
) -> tuple[Tensor, Tensor]:
    """Gaps 1 + d and indices (N, W) of the negatives whose mean is the deputy.

    ``gaps`` is (N, M), none below 0; the ``count`` smallest entries of a row are its negatives, and
    NaN sorts behind them. ``positives`` is (N,) and decides which of them are semi-hard.
    """
    if ranks == SEMI_HARD:  # those beyond the positive ascend, then the others descend
        beyond = gaps > positives[:, None]
        _, index = _smallest(torch.where(beyond, gaps, 5 - gaps), 1)
        return gaps.gather(1, index), index
    lo, hi = (1, count) if ranks == ALL else clamp_ranks(ranks, count)
    values, index = _smallest(gaps, hi, ascending=1 < lo < hi)
    if lo < hi:
        return values[:, lo - 1 :], index[:, lo - 1 :]
    values, last = values.max(dim=1, keepdim=True)
    return values, index.gather(1, last)


def _smallest(x: Tensor, count: int, ascending: bool = False) -> tuple[Tensor, Tensor]:
    """Values and indices of the ``count`` smallest in every row of (N, M); none is below 0.

    The bits of such floats are integers in the same order, with NaN at the end, and topk compares
    integers a third faster.
    """
    found = x.view(_BITS[x.dtype]).topk(count, largest=False, sorted=ascending)
    return found.values.view(x.dtype), found.indices


class _Triplets(torch.autograd.Function):
    """l = γ·d_pos - d_deputy of every query, with its gradient in closed form.

    With the mirrored unit query q = -query / |query| and unit keys z_j a distance is a product,
    d_j = q·z_j. Between changes of rank the window is constant, hence

        dl/dquery = (mean of z_j over the window - γ·z_pos + l·q) / |query|,

    and the backward pass needs neither the (N, M) matrix nor its order.
    """

    @staticmethod
    def forward(ctx, query, key, ranks, gamma, offset):
        length = _length(query)  # (N, 1)
        q, z = query / -length, key / _length(key)  # (N, D), (M, D)
        one = q.new_ones(1)
        gaps = torch.addmm(one, q, z.T).abs_()  # (N, M): 1 + d is below 0 by rounding only
        diagonal = gaps.diagonal(offset)
        positives = diagonal.clone()
        diagonal.fill_(torch.nan)  # nobody is a negative of itself
        window, index = deputy_window(gaps, positives, ranks, count=len(key) - 1)  # (N, W)
        loss = one.lerp(positives, gamma) - window.mean(dim=1)  # (1 + γ·d_pos) - (1 + d_deputy)
        if ctx.needs_input_grad[0]:
            slope = F.embedding_bag(index, z, mode='sum').mul_(1 / index.shape[1])  # (N, D)
            slope.sub_(z[offset : offset + len(query)], alpha=gamma)
            ctx.save_for_backward(slope.addcmul_(q, loss[:, None]).div_(length))
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors  # (N, D)
        return slope * grad[:, None], None, None, None, None


def _length(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)


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
            other rows are its negatives. Those with NaN are farther than any other: they show
            in the positive, and in a window that reaches them.
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
    query, key = query.to(dtype), key.detach().to(dtype)
    if len(key) < 2:
        return reduce(query.sum(dim=1) * 0)
    loss = _Triplets.apply(query, key, ranks, gamma, offset)  # (N,)
    if deputy_ceiling is not None:  # γ·d_pos - min(d_deputy, ceiling)
        d_pos = -F.cosine_similarity(query, key[offset : offset + len(query)])
        loss = torch.maximum(loss, gamma * d_pos - deputy_ceiling)
    return reduce(F.threshold(loss, margin, margin))
