import numpy as np
import pytest

from ttl_mm.errors import UserError
from ttl_mm.explore.selection import densities, diverse_subset, outliers


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 6)).astype(np.float32)


def test_the_subset_equals_a_loop_over_all_distances(features):
    rows = unit(features.astype(float))
    chosen = diverse_subset(features, 10, seed=3)
    for taken in range(1, 10):  # each is the farthest from those before it
        distance = (1 - rows @ rows[chosen[:taken]].T).min(axis=1)
        assert distance[chosen[taken]] == pytest.approx(distance.max(), abs=1e-6)
    assert len(set(chosen)) == 10
    assert sorted(diverse_subset(features, 80)) == list(range(80))


def test_one_image_of_each_cluster_is_chosen():
    rng = np.random.default_rng(1)
    centers = np.eye(5, 12)
    rows = np.repeat(centers, 20, axis=0) + rng.normal(size=(100, 12)) * 0.02
    assert sorted(diverse_subset(rows, 5) // 20) == [0, 1, 2, 3, 4]


def test_density_keeps_odd_images_for_later_and_outliers_first():
    rng = np.random.default_rng(2)
    rows = np.repeat(np.eye(3, 10), 30, axis=0) + rng.normal(size=(90, 10)) * 0.05
    rows[7] = -rows[7]  # far from all
    assert 7 in diverse_subset(rows, 4)
    assert 7 not in diverse_subset(rows, 4, density_weight=1.0)
    assert outliers(rows, 1).tolist() == [7]
    units = unit(rows)
    similarity = np.sort(units @ units.T, axis=1)[:, -11:-1].mean(axis=1)
    expected = (similarity - similarity.min()) / np.ptp(similarity)
    np.testing.assert_allclose(densities(rows.astype(np.float32)), expected, atol=1e-4)


def test_impossible_numbers_are_refused(features):
    for number in (0, 81):
        with pytest.raises(UserError, match=f'{number} of 80'):
            diverse_subset(features, number)
