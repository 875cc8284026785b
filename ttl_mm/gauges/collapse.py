"""Gauges of collapse. Both are needed: a batch on a few poles has a healthy std and a tiny rank."""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def feature_std(features: Tensor) -> float:
    """Standard deviation of the unit-length features, averaged over the dimensions.

    Directions spread evenly over the sphere of dimension D give 1/sqrt(D), a single point 0.

    Args:
        features: (N, D), any scale.

    >>> feature_std(torch.ones(5, 4)), feature_std(torch.tensor([[1.0, 0, 0, 0], [-3, 0, 0, 0]]))
    (0.0, 0.25)
    """
    directions = normalize(checked_matrix(features), dim=1)
    return directions.std(dim=0, correction=0).mean().item()


def effective_rank(features: Tensor) -> float:
    r"""Number of dimensions that the features use, :math:`\exp(-\sum_i p_i \ln p_i)`.

    :math:`p_i = \sigma_i / \sum_j \sigma_j` are the normalized singular values of the features as
    they are (not centered: one point and two opposite poles both have rank 1, which is the alarm).
    It lies in [1, min(N, D)], is 0 for features that are all zero and NaN for non-finite ones.

    Args:
        features: (N, D), any scale.

    >>> round(effective_rank(torch.eye(4)), 3), round(effective_rank(torch.ones(9, 4)), 3)
    (4.0, 1.0)
    """
    features = checked_matrix(features)
    if not features.isfinite().all():
        return float('nan')
    # sigma^2 are the eigenvalues of the smaller Gram matrix: far cheaper than an SVD
    gram = features @ features.T if len(features) < features.shape[1] else features.T @ features
    sigma = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    total = sigma.sum()
    if total == 0:
        return 0.0
    return torch.special.entr(sigma / total).sum().exp().item()


def checked_matrix(features: Tensor) -> Tensor:
    """The features in float64 without their graph; raise unless they are a non-empty matrix."""
    features = torch.as_tensor(features)
    if features.ndim != 2 or len(features) == 0:
        raise ValueError(f'features must be a non-empty (N, D) matrix, not {tuple(features.shape)}')
    return features.detach().double()
