"""The truncated triplet loss L = max(γ·d_pos - d_deputy, C), as pure functions for its three steps.

1. distance: d(a, b) = -cos(a, b) of every query to every key, :func:`cosine_distances`;
2. selection: the distances of the positive and of the deputy, :func:`select_deputy`;
3. reduction: the floor C, and the mean over the batch, :func:`reduce_triplets`.

:func:`plain_truncated_triplet_loss` takes them one after the other. Training calls
:func:`truncated_triplet_loss`: the same values and gradients, faster.
"""

import math

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


def select_deputy(
    distances: Tensor,
    ranks: Ranks,
    offset: int = 0,
    temperature: float | None = None,
    views: int = 1,
) -> tuple[Tensor, Tensor]:
    """The distances (N,) of the positives and (N,) of the deputies, from all distances (N, M).

    Column ``offset + i`` is the positive of row i. The columns are ``views`` views of M / views
    images, one view after the other; those of other images are negatives, M - views of them. The
    nearest negative has rank 1, and NaN comes last. The deputy is the mean over ``ranks``, or with
    a temperature their :func:`soft_minimum`.

    >>> select_deputy(torch.tensor([[-0.9, 0.3, -0.5, 0.1]]), ranks=(1, 2))
    (tensor([-0.9000]), tensor([-0.2000]))
    """
    positive = distances.diagonal(offset)  # (N,)
    is_own = torch.zeros_like(distances, dtype=torch.bool)  # another view of the same image
    for column in view_offsets(offset, distances.shape[1], views):
        is_own.diagonal(column).fill_(True)
    negatives = distances[~is_own].view(len(distances), -1).sort(dim=1).values  # (N, M - views)
    if ranks == SEMI_HARD:
        nearer = (negatives <= positive[:, None]).sum(dim=1)  # the next one is beyond the positive
        farthest = (~negatives.isnan()).sum(dim=1) - 1
        chosen = torch.minimum(nearer, farthest).clamp(min=0)
        return positive, negatives.gather(1, chosen[:, None])[:, 0]
    lo, hi = rank_window(ranks, negatives.shape[1])
    window = negatives[:, lo - 1 : hi]
    if temperature is None:
        return positive, window.mean(dim=1)
    return positive, soft_minimum(window, temperature)


def soft_minimum(distances: Tensor, temperature: float) -> Tensor:
    """-T·log(mean_j exp(-d_j / T)) of every row (N, W), as (N,): between minimum and mean.

    Its gradient is a weighted mean, with weights softmax(-d / T): near negatives count more. A
    small T gives the hardest of them, a large T the mean.

    >>> rows = torch.tensor([[-0.8, -0.2]])
    >>> [round(soft_minimum(rows, t).item(), 3) for t in (0.01, 0.2, 100.0)]
    [-0.793, -0.671, -0.5]
    """
    log_mean = torch.logsumexp(distances / -temperature, dim=1) - math.log(distances.shape[1])
    return -temperature * log_mean


def view_offsets(offset: int, num_keys: int, views: int) -> range:
    """The columns in which the first row finds each view of its own image, its positive first.

    >>> list(view_offsets(offset=2, num_keys=16, views=2))  # two views of eight images
    [2, 10]
    """
    return range(offset, num_keys, num_keys // views)


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
    temperature: float | None = None,
    views: int = 1,
    key_gradient: bool = False,
) -> Tensor:
    """The definition of :func:`truncated_triplet_loss`, for at least one negative; slower.

    >>> query = torch.eye(3)
    >>> plain_truncated_triplet_loss(query, query, ranks=(1, 1))  # 2 · (-1) - 0
    tensor(-2.)
    """
    distances = cosine_distances(query, key if key_gradient else key.detach())  # (N, M)
    positive, deputy = select_deputy(distances, ranks, offset, temperature, views)  # (N,), (N,)
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
    temperature: float | None = None,
    views: int = 1,
    key_gradient: bool = False,
) -> Tensor:
    """max(γ·d_pos - d_deputy, C) of every query.

    Args:
        query: (N, D) predictions.
        key: (M, D) target projections, M >= N. Row ``offset + i`` is the positive of query i, all
            other rows are its negatives. A key with NaN is farther away than any other: the loss
            is NaN where it is the positive, or where the ranks reach it.
        ranks: (lo, hi), 'semi-hard' or 'all'; ranks beyond the negatives there are are clamped.
        gamma: the weight of the positive.
        margin: the floor C. A row at the floor has no gradient.
        deputy_ceiling: a deputy beyond this distance is not pushed any further.
        reduction: 'mean' (rows at the floor count), 'sum' or 'none', which gives (N,).
        offset: the first positive, where ``key`` was gathered from several processes.
        temperature: the deputy is the :func:`soft_minimum` over the ranks instead of their mean.
        views: how many views of each image ``key`` holds, all images of one after all of another.
            The first has the positives, and no image is a negative of itself in any.
        key_gradient: whether keys get a gradient as well; by default queries alone do.

    Without any negative the loss is zero.

    >>> query = key = torch.eye(4)  # every positive at -1, every negative at 0
    >>> truncated_triplet_loss(query, key, ranks=(2, 3))
    tensor(-2.)
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(dtype), (key if key_gradient else key.detach()).to(dtype)
    if len(key) <= views:
        return reduce_triplets(query.sum(dim=1) * 0, -1.0, reduction)
    window = None if ranks == SEMI_HARD else rank_window(ranks, len(key) - views)
    own = view_offsets(offset, len(key), views)
    loss = FastTriplets.apply(query, key, window, gamma, own, temperature)  # (N,)
    if deputy_ceiling is not None:  # γ·d_pos - min(d_deputy, ceiling)
        d_pos = -F.cosine_similarity(query, key[offset : offset + len(query)])
        loss = torch.maximum(loss, gamma * d_pos - deputy_ceiling)
    return reduce_triplets(loss, margin, reduction)


def coding_rate(projections: Tensor, distortion: float = 0.2) -> Tensor:
    """How much room the projections (N, D) of a batch take up, a scalar.

    R(Z) = log det(I + D / (N·ε) · ZᵀZ) / 2D with unit rows z, up to a distortion ε: the larger, the
    more evenly the rows use all D dimensions. A deputy sees single negatives, this sees the batch.

    >>> coding_rate(torch.eye(4)) > coding_rate(torch.ones(4, 4))
    tensor(True)
    """
    z = F.normalize(projections.to(torch.promote_types(projections.dtype, torch.float32)))
    count, width = z.shape
    # both have the same determinant: det(I + AB) = det(I + BA)
    gram = z.T @ z if width <= count else z @ z.T
    unit = torch.eye(len(gram), dtype=z.dtype, device=z.device)
    room = unit + gram * (width / count / distortion)
    return torch.linalg.cholesky(room).diagonal().log().sum() / width


def rank_window(ranks: Ranks, num_negatives: int) -> tuple[int, int]:
    """The ranks (lo, hi) clamped to those that exist.

    >>> rank_window((2, 11), num_negatives=5), rank_window('all', num_negatives=5)
    ((2, 5), (1, 5))
    """
    if isinstance(ranks, str):
        if ranks != ALL:
            raise UserError(f'ranks={ranks!r}: use (lo, hi), {SEMI_HARD!r} or {ALL!r}.')
        ranks = (1, num_negatives)
    lo, hi = ranks
    return max(1, min(lo, num_negatives)), max(1, min(hi, num_negatives))


def is_rank(value: object) -> bool:
    """Whether the value is an integer from 1, the rank of the hardest negative.

    >>> [is_rank(value) for value in (1, 0, 1.0, True)]
    [True, False, False, False]
    """
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
