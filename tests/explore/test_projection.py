import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from ttl_mm.errors import UserError
from ttl_mm.explore.projection import default_method, project


def test_neighbors_of_the_plane_share_their_class():
    digits = load_digits(n_class=5)
    data, labels = digits.data[:300], digits.target[:300]
    points = project(data, 'tsne')
    assert points.shape == (300, 2)
    assert points.min() >= 0
    assert points.max() <= 1
    assert KNeighborsClassifier(5).fit(points, labels).score(points, labels) > 0.9
    assert np.array_equal(points, project(data, 'tsne'))  # the same each time


def test_few_images_and_flat_features_have_a_place():
    for rows in (np.ones((1, 4)), np.ones((3, 4)), np.arange(8.0).reshape(8, 1)):
        points = project(rows)
        assert points.shape == (len(rows), 2)
        assert np.isfinite(points).all()
    assert default_method(1_000_000) == 'pca'
    assert default_method(3) in ('pca', 'umap')
    assert default_method(1000) in ('tsne', 'umap')
    with pytest.raises(UserError, match="'tsnee'"):
        project(np.ones((9, 3)), 'tsnee')
