"""Distance and selection of the truncated triplet loss at once, with the gradient in closed form.

What is computed is defined by the plain functions in :mod:`ttl_mm.models.losses`. What is saved:
the gradient of the (N, M) distances, a full sort of every row, and passes over that matrix.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Gaps are 1 + d, in [0, 2]. The bits of floats that are not negative are integers in the same
# order, with NaN at the end, and topk compares integers a third faster.
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class FastTriplets(torch.autograd.Function):
    """l = γ·d_pos - d_deputy (N,) of queries (N, D) against keys (M, D).

    ``window`` holds the ranks (lo, hi) of the deputy, clamped to those that exist; None is
    semi-hard. Row ``own[0] + i`` of the keys is the positive of query i, and rows ``own[v] + i``
    are further views of its image, no negatives. With a temperature T the deputy is the soft
    minimum over the window, else the mean.

    With the mirrored unit query q = -query / |query| and unit keys z_j a distance is a product,
    d_j = q·z_j. As long as no two negatives change places the deputy moves like a mean over fixed
    keys with weights w_j, which are equal or softmax(-d_j / T). So with p = γ·d_pos - Σ w_j·d_j

        dl/dquery = (Σ w_j·z_j - γ·z_pos + p·q) / |query|,

    and this part of the backward pass needs neither the (N, M) matrix nor its order. A key with NaN
    that is not selected spoils no gradient, where 0 · NaN in the plain form would. If keys get a
    gradient, each collects γ·q from the query whose positive it is, and -w·q from every query whose
    deputy it belongs to; the part along the key itself is taken off.
    """

    @staticmethod
    def forward(ctx, query, key, window, gamma, own, temperature):
        length, key_length = _length(query), _length(key)  # (N, 1), (M, 1)
        q, z = query / -length, key / key_length  # (N, D), (M, D)
        one = q.new_ones(1)
        gaps = torch.addmm(one, q, z.T).abs_()  # (N, M): 1 + d is below 0 by rounding only
        positive = gaps.diagonal(own[0]).clone()  # (N,)
        for offset in own:
            gaps.diagonal(offset).fill_(torch.nan)  # sorts last: no image is its own negative
        if window is None:
            deputy, index = _semi_hard(gaps, positive)  # (N, 1)
        else:
            deputy, index = _ranked(gaps, *window)  # (N, W)
        pull = one.lerp(positive, gamma)  # 1 + γ·d_pos
        weights = None  # equal
        if temperature is None:
            loss = balance = pull - deputy.mean(dim=1)  # (1 + γ·d_pos) - (1 + d_deputy)
        else:
            scaled = deputy / -temperature  # (N, W)
            weights = scaled.softmax(dim=1)
            log_mean = scaled.logsumexp(dim=1) - math.log(deputy.shape[1])
            loss = pull + temperature * log_mean
            balance = pull - (weights * deputy).sum(dim=1)  # p
        of_query: Tensor | None = None
        of_key: list[Tensor | None] = [None] * 5
        if ctx.needs_input_grad[0]:
            slope = F.embedding_bag(index, z, mode='sum', per_sample_weights=weights)  # (N, D)
            if weights is None:
                slope.mul_(1 / index.shape[1])
            slope.sub_(z[own[0] : own[0] + len(query)], alpha=gamma)
            of_query = slope.addcmul_(q, balance[:, None]).div_(length)
        if ctx.needs_input_grad[1]:
            of_key = [q, z, key_length, index, weights]
            ctx.gamma, ctx.offset = gamma, own[0]
        ctx.save_for_backward(of_query, *of_key)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        slope, q, z, key_length, index, weights = ctx.saved_tensors
        of_query = None if slope is None else slope * grad[:, None]  # (N, D)
        of_key = None
        if q is not None:
            share = q.new_zeros(len(q), len(z))  # (N, M): of each key in each query's loss
            equal = q.new_full(index.shape, -1 / index.shape[1])
            share.scatter_(1, index, equal if weights is None else -weights)
            share.diagonal(ctx.offset).fill_(ctx.gamma)
            of_unit = share.T @ (q * grad[:, None])  # (M, D)
            of_key = (of_unit - (of_unit * z).sum(dim=1, keepdim=True) * z) / key_length
        return of_query, of_key, None, None, None, None


def _length(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)


def _ranked(gaps: Tensor, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """Gaps and indices (N, hi - lo + 1) of ranks lo to hi in every row of (N, M)."""
    values, index = _smallest(gaps, hi, ascending=1 < lo < hi)
    if lo < hi:
        return values[:, lo - 1 :], index[:, lo - 1 :]
    values, last = values.max(dim=1, keepdim=True)  # one rank: the largest of the hi smallest
    return values, index.gather(1, last)


def _semi_hard(gaps: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """Gap and index (N, 1) of the nearest beyond the positive (N,), else of the farthest."""
    beyond = gaps > positive[:, None]
    # gaps are at most 2: those beyond the positive come first, the others after 5 - 2, reversed
    _, index = _smallest(torch.where(beyond, gaps, 5 - gaps), 1)
    return gaps.gather(1, index), index


def _smallest(x: Tensor, count: int, ascending: bool = False) -> tuple[Tensor, Tensor]:
    """Values and indices of the ``count`` smallest in every row of (N, M); none is below 0."""
    found = x.view(_BITS[x.dtype]).topk(count, largest=False, sorted=ascending)
    return found.values.view(x.dtype), found.indices
