"""Measures that judge features without labels; RankMe is :func:`~ttl_mm.gauges.effective_rank`.

None of them is accuracy, and each can be high for useless features.
Every measure is NaN for features that hold NaN or infinity.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pdist

from ttl_mm.gauges.collapse import checked_matrix, effective_rank

TIE = 1e-6  # cosines that differ by less are equal: features in float32 are no more exact


def lidar(views: Tensor, delta: float = 1e-4) -> float:
    r"""Dimensions in which images differ more than the views of one image: the rank of an LDA.

    Each image is a class of its own, its views are the members. With the covariance
    :math:`\Sigma_b` of the means of the images and the mean covariance :math:`\Sigma_w` of the
    views around them, this is :math:`\exp(-\sum_i p_i \ln p_i)` of the normalized eigenvalues
    :math:`p_i` of :math:`\Sigma_w^{-1/2} \Sigma_b \Sigma_w^{-1/2}`, where :math:`\delta I` is
    added to :math:`\Sigma_w`. It lies in [1, min(N - 1, D)], is 0 where all images are equal, and
    NaN for a single image.

    Args:
        views: (N, Q, D): Q views of each of N images, Q at least 2.
        delta: Keeps :math:`\Sigma_w` invertible.

    Source: Thilak et al., LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL
    Architectures, 2023.

    >>> images = torch.eye(3)[:, None].expand(3, 2, 3)  # two equal views of three images
    >>> round(lidar(images), 3)
    2.0
    """
    views = torch.as_tensor(views)
    if views.ndim != 3 or not len(views) or views.shape[1] < 2:
        raise ValueError(f'expected (images, views, D) with two or more views: {views.shape}')
    views = views.detach().double()
    if len(views) < 2 or not views.isfinite().all():
        return math.nan
    means = views.mean(dim=1)  # (N, D)
    between = covariance(means)
    around = (views - means[:, None]).flatten(0, 1)  # (N * Q, D)
    within = around.T @ around / (len(views) * (views.shape[1] - 1))
    within.diagonal().add_(delta)
    # eigenvalues of within^-1/2 · between · within^-1/2 are those of the pencil (between, within)
    factor = torch.linalg.cholesky(within)
    half = torch.linalg.solve_triangular(factor, between, upper=False)
    whitened = torch.linalg.solve_triangular(factor, half.T, upper=False)
    return _perplexity(torch.linalg.eigvalsh(whitened).clamp(min=0))


def spectrum_decay(features: Tensor, first: int = 3) -> float:
    r"""The exponent alpha of :math:`\lambda_i \propto i^{-\alpha}`, as in alpha-ReQ.

    :math:`\lambda_i` are the eigenvalues of the covariance in descending order. The slope of
    :math:`\ln \lambda_i` over :math:`\ln i` is fitted by least squares, from eigenvalue ``first``
    on: the largest ones do not follow the law. Eigenvalues that are zero up to rounding are left
    out. Near 0 all directions are used equally, which keeps noise; far above 1 only a few are.
    NaN where fewer than three eigenvalues are left.

    Args:
        features: (N, D), any scale and offset.
        first: The first eigenvalue of the fit, from 1.

    Source: Agrawal et al., alpha-ReQ: Assessing Representation Quality in Self-Supervised Learning
    by Measuring Eigenspectrum Decay, 2022.

    >>> eigenvalues = torch.arange(1.0, 9) ** -1.5
    >>> features = torch.cat([torch.eye(8), -torch.eye(8)]) * eigenvalues.sqrt()
    >>> round(spectrum_decay(features), 3)
    1.5
    """
    features = checked_matrix(features)
    if not features.isfinite().all() or len(features) < 2:
        return math.nan
    eigenvalues = torch.linalg.eigvalsh(covariance(features)).flip(0).numpy()  # descending
    positive = eigenvalues[eigenvalues > max(eigenvalues[0], 0) * 1e-10][first - 1 :]
    if len(positive) < 3:
        return math.nan
    ranks = np.arange(first, first + len(positive))
    slope, _ = np.polyfit(np.log(ranks), np.log(positive), deg=1)
    return -float(slope)


def alignment(view: Tensor, other: Tensor) -> float:
    r"""Mean squared distance of the two views of an image, as unit vectors: 0 if they agree.

    Args:
        view: (N, D).
        other: (N, D), another view of the same images.

    Source: Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
    Uniformity on the Hypersphere, 2020; there with the exponent 2, as here.

    >>> alignment(torch.tensor([[2.0, 0], [1, 0]]), torch.tensor([[3.0, 0], [0, 1]]))
    1.0
    """
    view, other = _pair(view, other)
    return (normalize(view) - normalize(other)).square().sum(dim=1).mean().item()


def uniformity(features: Tensor, t: float = 2.0) -> float:
    r"""How evenly unit vectors fill the sphere, :math:`\ln \text{mean}_{i<j} e^{-t|x_i - x_j|^2}`.

    0 if all features are equal, about -4 at most evenly spread over many dimensions (t = 2). NaN
    for a single image. Source: as for :func:`alignment`.

    Args:
        features: (N, D), any length.
        t: The smaller, the farther two images see each other.

    >>> uniformity(torch.tensor([[1.0, 0], [-1, 0]]))  # -2 times the squared distance, 4
    -8.0
    """
    features = checked_matrix(features)
    if len(features) < 2:
        return math.nan
    exponents = -t * pdist(normalize(features)).square()  # (N * (N - 1) / 2,)
    return (exponents.logsumexp(dim=0) - math.log(len(exponents))).item()


def neighbor_overlap(features: Tensor, other: Tensor, neighbors: int = 10) -> float:
    """Share of the nearest neighbors of an image that it has in both sets of features.

    With the features of two checkpoints it says how much training still rearranges the images;
    with those of two views, how little the neighbors depend on the view. Unrelated features give
    about ``neighbors / (N - 1)``, and so do features that are all equal. With fewer images every
    other image is a neighbor. NaN for a single image.

    Args:
        features: (N, D).
        other: (N, E) of the same images in the same order.
        neighbors: How many of them to compare.

    >>> line = torch.tensor([[1.0, 0], [1, 0.1], [1, 1], [1, 1.2]])
    >>> neighbor_overlap(line, 5 * line, neighbors=1)
    1.0
    """
    found = nearest_neighbors(features, neighbors), nearest_neighbors(other, neighbors, draw=1)
    return shared_neighbors(*found)


def nearest_neighbors(features: Tensor, neighbors: int, draw: int = 0) -> Tensor:
    """(N, k) indices of the nearest by cosine; k = 0 for one image and for non-finite features.

    Which of equally near images are taken is drawn at random, differently for every ``draw``: else
    a network that maps all images to a few points would seem to keep all neighbors.

    >>> nearest_neighbors(torch.tensor([[1.0, 0], [1, 0.1], [1, 1], [1, 1.2]]), 1).flatten()
    tensor([1, 0, 3, 2])
    """
    directions = normalize(checked_matrix(features))
    count = min(neighbors, len(directions) - 1) if directions.isfinite().all() else 0
    similarity = directions @ directions.T
    rng = torch.Generator().manual_seed(draw)
    similarity += TIE * torch.rand(similarity.shape, generator=rng, dtype=torch.float64)
    return similarity.fill_diagonal_(-torch.inf).topk(count, dim=1).indices


def shared_neighbors(neighbors: Tensor, other: Tensor) -> float:
    """Share of the neighbors (N, k) that are in the same row of ``other`` (N, k) too.

    >>> shared_neighbors(torch.tensor([[1, 2], [0, 2]]), torch.tensor([[2, 1], [0, 3]]))
    0.75
    """
    return shares_of_images(neighbors, other).mean().item()


def shares_of_images(neighbors: Tensor, other: Tensor) -> Tensor:
    """The same for every image (N,); NaN where there are no neighbors."""
    if len(neighbors) != len(other):
        raise ValueError(f'{len(neighbors)} and {len(other)} images: give the same ones twice')
    if not (neighbors.shape[1] and other.shape[1]):
        return torch.full((len(neighbors),), math.nan)
    return (neighbors[:, :, None] == other[:, None]).any(dim=2).double().mean(dim=1)


def covariance(features: Tensor) -> Tensor:
    """(D, D) sample covariance of features (N, D)."""
    centered = features - features.mean(dim=0)
    return centered.T @ centered / max(1, len(features) - 1)


def _perplexity(values: Tensor) -> float:
    """The exponential of the entropy of values that are not negative; 0 if all are zero."""
    total = values.sum()
    return torch.special.entr(values / total).sum().exp().item() if total > 0 else 0.0


def _pair(view: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    view, other = checked_matrix(view), checked_matrix(other)
    if view.shape != other.shape:
        raise ValueError(f'two views must have one shape: {view.shape} and {other.shape}')
    return view, other


def judge_views(views: Tensor, neighbors: int = 10) -> dict[str, float]:
    """All measures of this module, and RankMe, of Q >= 2 views of N images, (N, Q, D).

    Measures of single features take the first view. ``view_invariance`` is
    :func:`neighbor_overlap` of two views, with its standard error over the images.

    >>> views = torch.eye(12)[:, None].expand(12, 2, 12)
    >>> round(judge_views(views)['rankme'], 3), judge_views(views)['alignment']
    (12.0, 0.0)
    """
    first, second = views[:, 0], views[:, 1]
    found = nearest_neighbors(first, neighbors), nearest_neighbors(second, neighbors, draw=1)
    kept = shares_of_images(*found)
    return {
        'rankme': effective_rank(first),
        'lidar': lidar(views),
        'spectrum_decay': spectrum_decay(first),
        'alignment': alignment(first, second),
        'uniformity': uniformity(first),
        'view_invariance': kept.mean().item(),
        'view_invariance_error': kept.std(correction=0).item() / math.sqrt(len(kept)),
    }
