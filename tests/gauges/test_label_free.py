import math

import numpy as np
import pytest
import torch
from scipy import linalg, stats
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from ttl_mm.gauges import (
    alignment,
    effective_rank,
    judge_views,
    lidar,
    neighbor_overlap,
    spectrum_decay,
    uniformity,
)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope='module')
def digits():
    return torch.from_numpy(load_digits().data[:200]).float()  # (200, 64)


@pytest.fixture(scope='module')
def views(digits):
    """Three noisy views of each digit, (200, 3, 64)."""
    return digits[:, None] + randn(200, 3, 64)


def test_rankme_equals_the_entropy_of_singular_values_and_ignores_turns_and_scale(digits):
    values = np.linalg.svd(digits.double().numpy(), compute_uv=False)
    assert effective_rank(digits) == pytest.approx(np.exp(stats.entropy(values)), rel=1e-6)
    rotation = torch.linalg.qr(randn(64, 64, seed=3).double()).Q
    turned = effective_rank(3 * digits.double() @ rotation)
    assert turned == pytest.approx(effective_rank(digits), rel=1e-6)


def test_lidar_equals_generalized_eigenvalues_of_scipy(views):
    for some in (views, randn(40, 5, 8), randn(6, 2, 20)):  # the last has fewer images than D
        rows = some.double().numpy()
        n, _, d = rows.shape
        between = np.cov(rows.mean(1), rowvar=False)
        within = sum(np.cov(image, rowvar=False) for image in rows) / n + 1e-4 * np.eye(d)
        eigenvalues = np.clip(linalg.eigh(between, within, eigvals_only=True), 0, None)
        assert lidar(some) == pytest.approx(np.exp(stats.entropy(eigenvalues)), rel=1e-6)


def test_lidar_sees_images_not_views():
    images = randn(60, 1, 4) @ randn(4, 16, seed=1)  # images differ in 4 dimensions
    noise = randn(60, 4, 16, seed=2) * 1e-3  # views differ in all
    assert lidar(images + noise) == pytest.approx(4, abs=0.7)
    assert lidar(torch.ones(5, 3, 4)) == 0
    rotation = torch.linalg.qr(randn(16, 16, seed=3).double()).Q
    moved = (images + noise).double() @ rotation + 5  # a turn and a shift change nothing
    assert lidar(moved) == pytest.approx(lidar(images + noise), rel=1e-3)


def test_spectrum_decay_equals_scipy_and_finds_a_planted_exponent(digits):
    for features in (digits, randn(300, 40)):
        spectrum = np.sort(np.linalg.eigvalsh(np.cov(features.double().numpy(), rowvar=False)))
        spectrum = spectrum[::-1][spectrum[::-1] > spectrum.max() * 1e-10][2:]
        fit = stats.linregress(np.log(np.arange(3, 3 + len(spectrum))), np.log(spectrum))
        assert spectrum_decay(features) == pytest.approx(-fit.slope, rel=1e-6)
    orthonormal = torch.linalg.qr(randn(200, 32).double() - randn(200, 32).double().mean(0)).Q
    planted = (orthonormal - orthonormal.mean(0)) * torch.arange(1.0, 33.0) ** -0.75
    assert spectrum_decay(planted) == pytest.approx(1.5, abs=0.1)
    assert spectrum_decay(3 * digits + 7) == pytest.approx(spectrum_decay(digits), rel=1e-6)


def test_alignment_and_uniformity_equal_loops_over_pairs(digits):
    for a, b in ((digits[:30], digits[30:60]), (randn(25, 7), randn(25, 7, seed=1))):
        x, y = (rows.numpy() / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
        squares = [np.sum((u - v) ** 2) for u, v in zip(x, y)]
        assert alignment(a, b) == pytest.approx(np.mean(squares), rel=1e-5)
        assert alignment(5 * a, b) == pytest.approx(alignment(a, b), rel=1e-6)
        pairs = [np.exp(-2 * np.sum((x[i] - x[j]) ** 2)) for i in range(len(x)) for j in range(i)]
        assert uniformity(a) == pytest.approx(np.log(np.mean(pairs)), rel=1e-5)
    assert alignment(digits, digits) == 0
    assert uniformity(digits[:1].expand(9, -1)) == pytest.approx(0, abs=1e-6)


def test_neighbor_overlap_equals_scikit_learn(digits, views):
    other = views[:, 0]

    def neighbors(rows):
        search = NearestNeighbors(n_neighbors=6, metric='cosine').fit(rows)
        return [set(found) - {i} for i, found in enumerate(search.kneighbors(rows)[1])]

    both = zip(neighbors(digits.double().numpy()), neighbors(other.double().numpy()))
    expected = np.mean([len(a & b) / 5 for a, b in both])
    assert neighbor_overlap(digits, other, neighbors=5) == pytest.approx(expected, abs=1e-9)
    assert neighbor_overlap(digits, digits) == 1
    unrelated = neighbor_overlap(randn(400, 8), randn(400, 8, seed=1))
    assert unrelated == pytest.approx(10 / 399, abs=0.01)
    rotation = torch.linalg.qr(randn(64, 64, seed=3)).Q
    turned = neighbor_overlap(7 * digits @ rotation, other, neighbors=5)
    assert turned == pytest.approx(expected, abs=0.01)  # cosines: no turn and no scale counts


@pytest.mark.parametrize('noise', [0.0, 1e-8])
def test_a_collapsed_network_keeps_no_neighbors(noise):
    """Neither on one point nor on two poles: this is the measure that verdicts go by."""
    for poles, chance in ((1, 10 / 199), (2, 10 / 99)):
        corners = randn(poles, 16)[torch.arange(200) % poles]
        views = corners[:, None] + noise * randn(200, 2, 16, seed=1)
        assert judge_views(views)['view_invariance'] == pytest.approx(chance, abs=0.02)
        assert neighbor_overlap(views[:, 0], views[:, 0]) == pytest.approx(chance, abs=0.02)


def test_edges_give_nan_or_an_error_that_names_the_shape():
    one, broken, same = randn(1, 4), randn(6, 4), torch.ones(9, 4)
    broken[2, 1] = math.nan
    undefined = [spectrum_decay(one), uniformity(one), neighbor_overlap(one, one)]
    undefined += [spectrum_decay(same), spectrum_decay(broken), uniformity(broken)]
    undefined += [alignment(broken, broken), neighbor_overlap(broken, broken)]
    undefined += [lidar(broken[:, None].expand(6, 2, 4)), lidar(one[:, None].expand(1, 2, 4))]
    undefined += [v for name, v in judge_views(one[:, None].expand(1, 2, 4)).items()
                  if name not in ('rankme', 'alignment')]  # fmt: skip
    undefined += judge_views(broken[:, None].expand(6, 2, 4)).values()
    assert all(map(math.isnan, undefined))
    assert neighbor_overlap(randn(3, 4), randn(3, 9), neighbors=50) == 1  # all others
    few = judge_views(randn(3, 2, 512))  # fewer images than dimensions
    assert 2 < few['rankme'] <= 3
    assert 1 < few['lidar'] <= 2
    constant = judge_views(torch.full((50, 2, 64), 0.37))
    assert (constant['lidar'], constant['alignment']) == (0, 0)
    assert constant['rankme'] == pytest.approx(1)
    assert constant['uniformity'] == pytest.approx(0, abs=1e-6)
    assert math.isnan(constant['spectrum_decay'])
    for measure, *bad in (
        (lidar, randn(5, 4)),
        (lidar, randn(4, 1, 4)),
        (lidar, randn(0, 2, 4)),
        (uniformity, randn(2, 2, 2)),
        (alignment, randn(3, 4), randn(3, 5)),
        (neighbor_overlap, randn(3, 4), randn(2, 4)),
    ):
        with pytest.raises(ValueError, match=r'\d'):
            measure(*bad)
