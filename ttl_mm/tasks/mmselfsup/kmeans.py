"""k-means on any device, as pure functions; mmselfsup's needs faiss and a GPU."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ttl_mm.errors import UserError

ROWS_AT_ONCE = 2**15
SCORES_AT_ONCE = 2**26


def whiten(features: Tensor, dim: int | None, device: torch.device | None = None) -> Tensor:
    """Features (N, D) of unit length, after a whitening PCA to ``dim`` dimensions if given.

    They pass through ``device`` in parts, by default their own, and only the result stays there:
    the features of ImageNet fill the memory of a GPU.
    """
    device = device or features.device
    if dim is None or dim >= features.shape[1]:
        return F.normalize(features.to(device), dim=1)
    parts = features.split(ROWS_AT_ONCE)
    mean = features.mean(dim=0).to(device)
    centered = ((some.to(device) - mean) for some in parts)
    covariance = sum(some.T @ some for some in centered) / len(features)
    values, vectors = torch.linalg.eigh(covariance)  # ascending
    projection = vectors[:, -dim:] * values[-dim:].clamp(min=1e-10).rsqrt()  # (D, dim)
    reduced = torch.cat([(some.to(device) - mean) @ projection for some in parts])
    return F.normalize(reduced, dim=1)


def kmeans(
    points: Tensor, num_clusters: int, seed: int = 0, iterations: int = 20,
    alive: Callable[[], None] = lambda: None,
) -> Tensor:  # fmt: skip
    """Cluster numbers (N,) of points (N, D) by Lloyd's algorithm; no cluster stays empty.

    ``alive`` is called in every iteration.
    """
    if num_clusters > len(points):
        raise UserError(
            f'num_clusters={num_clusters} exceeds the number of images, {len(points)}: lower it.'
        )
    generator = torch.Generator().manual_seed(seed)
    start = torch.randperm(len(points), generator=generator)[:num_clusters].to(points.device)
    centroids = points[start]  # (num_clusters, D)
    for _ in range(iterations):
        labels = fill_empty(*nearest(points, centroids), num_clusters)
        centroids = means(points, labels, num_clusters)
        alive()
    return labels


def nearest(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centroid of every point (N,), and the squared distance to it (N,)."""
    labels, distances = [], []
    for some in points.split(max(1, SCORES_AT_ONCE // len(centroids))):
        scores = torch.addmm(centroids.square().sum(dim=1), some, centroids.T, alpha=-2)
        least = scores.min(dim=1)
        labels.append(least.indices)
        distances.append(least.values + some.square().sum(dim=1))
    return torch.cat(labels), torch.cat(distances)


def fill_empty(labels: Tensor, distances: Tensor, num_clusters: int) -> Tensor:
    """Fill each empty cluster with the point farthest from its centroid, if not alone there."""
    sizes = labels.bincount(minlength=num_clusters)
    for cluster in (sizes == 0).nonzero().flatten().tolist():
        farthest = distances.masked_fill(sizes[labels] < 2, -1).argmax()
        sizes[labels[farthest]] -= 1
        sizes[cluster] = 1
        labels[farthest] = cluster
    return labels


def means(points: Tensor, labels: Tensor, num_clusters: int) -> Tensor:
    """The mean point of every cluster (num_clusters, D); zero for an empty cluster."""
    sums = points.new_zeros(num_clusters, points.shape[1]).index_add_(0, labels, points)
    return sums / labels.bincount(minlength=num_clusters).clamp(min=1)[:, None]
