"""Whitening and k-means against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from ttl_mm.errors import UserError
from ttl_mm.tasks.mmselfsup.kmeans import fill_empty, kmeans, nearest, whiten


@pytest.fixture
def blobs():
    """120 points around 6 centers that lie close to each other."""
    rng = torch.Generator().manual_seed(0)
    centers = torch.randn(6, 5, generator=rng)
    return centers.repeat(20, 1) + 0.4 * torch.randn(120, 5, generator=rng)


def test_whitening(blobs, monkeypatch):
    monkeypatch.setattr('ttl_mm.tasks.mmselfsup.kmeans.ROWS_AT_ONCE', 50)
    expected = PCA(3, whiten=True).fit_transform(blobs.numpy())
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = whiten(blobs, 3).numpy()
    # the sign of a component is free, products of rows are not
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    torch.testing.assert_close(whiten(blobs, None), blobs / blobs.norm(dim=1, keepdim=True))


def test_kmeans_from_the_same_start(blobs, monkeypatch):
    monkeypatch.setattr('ttl_mm.tasks.mmselfsup.kmeans.SCORES_AT_ONCE', 6 * 50)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        start = blobs[torch.randperm(len(blobs), generator=generator)[:6]].numpy()
        sklearn = KMeans(6, init=start, n_init=1, max_iter=30, tol=0).fit(blobs.numpy())
        assert kmeans(blobs, 6, seed, iterations=30).tolist() == sklearn.labels_.tolist()


def test_an_empty_cluster_takes_the_farthest_point_that_is_not_alone():
    points = torch.tensor([[0.0], [1.0], [3.0], [100.0]])
    labels, distances = nearest(points, torch.tensor([[0.0], [50.0], [-90.0]]))
    assert labels.tolist() == [0, 0, 0, 1]
    assert distances.tolist() == [0, 1, 9, 2500]
    assert fill_empty(labels, distances, 3).tolist() == [0, 0, 2, 1]


def test_as_many_clusters_as_images_and_no_more():
    points = torch.tensor([[0.0], [0.0], [0.0], [0.0], [1.0], [5.0]])
    for number in (5, 6):  # none stays empty
        assert kmeans(points, number).unique().tolist() == list(range(number))
    with pytest.raises(UserError, match='num_clusters=7 exceeds the number of images, 6'):
        kmeans(points, 7)
