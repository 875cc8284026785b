"""Distance and selection of the truncated triplet loss at once, with the gradient in closed form.

What is computed is defined by the plain functions in :mod:`ttl_mm.models.losses`. What is saved:
the gradient of the (N, M) distances, a full sort of every row, and passes over that matrix.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Gaps are 1 + d, in [0, 2]. The bits of floats that are not negative are integers in the same
# order, with NaN at the end, and topk compares integers a third faster.
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class FastTriplets(torch.autograd.Function):
    """l = γ·d_pos - d_deputy (N,) of queries (N, D) against keys (M, D), which get no gradient.

    ``window`` holds the ranks (lo, hi) of the deputy, clamped to those that exist; None is
    semi-hard. Row ``offset + i`` of the keys is the positive of query i.

    With the mirrored unit query q = -query / |query| and unit keys z_j a distance is a product,
    d_j = q·z_j. As long as no two negatives change places the deputy is a mean over fixed keys, so

        dl/dquery = (mean of z_j over the deputy's keys - γ·z_pos + l·q) / |query|,

    and the backward pass needs neither the (N, M) matrix nor its order. A key with NaN that is not
    selected spoils no gradient, where 0 · NaN in the plain form would.
    """

    @staticmethod
    def forward(ctx, query, key, window, gamma, offset):
        length = _length(query)  # (N, 1)
        q, z = query / -length, key / _length(key)  # (N, D), (M, D)
        one = q.new_ones(1)
        gaps = torch.addmm(one, q, z.T).abs_()  # (N, M): 1 + d is below 0 by rounding only
        diagonal = gaps.diagonal(offset)
        positive = diagonal.clone()  # (N,)
        diagonal.fill_(torch.nan)  # sorts last: no image is a negative of itself
        if window is None:
            deputy, index = _semi_hard(gaps, positive)  # (N, 1)
        else:
            deputy, index = _ranked(gaps, *window)  # (N, W)
        loss = one.lerp(positive, gamma) - deputy.mean(dim=1)  # (1 + γ·d_pos) - (1 + d_deputy)
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
