import hashlib

import numpy as np
import pytest

from ttl_mm.explore.duplicates import (
    ALTERATIONS,
    Centered,
    altered_copy,
    choose_threshold,
    exact_copies,
    groups_of,
    leaked_pairs,
    mean_of,
    near_pairs,
)


@pytest.fixture
def features():
    """60 directions of which 3, 17 and 40 are nearly one, and 8 and 9 too."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 16))
    for copy, of in ((17, 3), (40, 3), (9, 8)):
        rows[copy] = 3 * rows[of] + rng.normal(size=16) * 0.05
    return rows.astype(np.float32)


def plain(features):
    return Centered(features, np.zeros(features.shape[1], np.float32))


def pairs_by_loop(a, b, cosine, same):
    a, b = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a.astype(float), b.astype(float))
    )
    return {
        (i, j)
        for i in range(len(a))
        for j in range(i + 1 if same else 0, len(b))
        if a[i] @ b[j] >= cosine
    }


def test_near_pairs_equal_a_loop_over_all_pairs(features):
    found = near_pairs(plain(features), 0.97)
    expected = {(3, 17), (3, 40), (17, 40), (8, 9)}
    assert set(zip(found.first.tolist(), found.second.tolist())) == expected
    assert expected == pairs_by_loop(features, features, 0.97, same=True)
    assert groups_of(np.stack(found[:2], 1), 60) == [[3, 17, 40], [8, 9]]
    assert len(near_pairs(plain(features[:1]), 0.9).first) == 0


def test_rows_are_centered_where_they_are_read(features):
    rows = Centered(features, mean_of(features))
    expected = features - features.astype(float).mean(axis=0)
    for some in (slice(3, 9), np.array([5, 2])):
        np.testing.assert_allclose(rows[some], expected[some], atol=1e-6)
    assert len(rows) == 60


def test_more_copies_than_neighbors_are_one_group():
    rows = np.ones((50, 4), np.float32)
    pairs = near_pairs(plain(rows), 0.99)
    assert groups_of(np.stack(pairs[:2], 1), 50) == [list(range(50))]


def test_leaks_equal_a_loop(features):
    train, test = features[:30], features[30:]
    found = leaked_pairs(plain(test), plain(train), 0.97)
    assert set(zip(found.first.tolist(), found.second.tolist())) == {(10, 3), (10, 17)}
    assert pairs_by_loop(test, train, 0.97, same=False) == {(10, 3), (10, 17)}


def test_exact_copies_have_equal_bytes(tmp_path):
    rng = np.random.default_rng(0)
    contents = [rng.bytes(300) for _ in range(4)]
    chosen = [0, 1, 0, 2, 3, 1, 0]
    paths = []
    for i, content in enumerate(chosen):
        path = tmp_path / f'{i}.bin'
        path.write_bytes(contents[content])
        paths.append(str(path))
    assert exact_copies(paths) == [[0, 2, 6], [1, 5]]
    assert len({hashlib.md5(contents[c]).digest() for c in chosen}) == 4  # 3 and 4 are alone


def test_the_threshold_lies_between_copies_and_neighbors():
    rng = np.random.default_rng(0)
    copies = rng.uniform(0.95, 1, 200)
    nearest = np.append(rng.uniform(0.3, 0.9, 1000), np.full(50, 0.999))  # fifty real duplicates
    threshold = choose_threshold(copies, nearest)
    assert 0.89 < threshold.cosine < 0.955
    assert threshold.found == pytest.approx(1)
    assert threshold.flagged == pytest.approx(50 / 1050)
    overlapping = choose_threshold(rng.normal(0.9, 0.03, 500), rng.normal(0.8, 0.03, 5000))

    def cost(t):  # a finer grid finds nothing better
        return (copies_ < t).mean() + 10 * (nearest_ >= t).mean()

    rng = np.random.default_rng(1)
    copies_, nearest_ = rng.normal(0.9, 0.03, 500), rng.normal(0.8, 0.03, 5000)
    chosen = choose_threshold(copies_, nearest_)
    assert cost(chosen.cosine) <= min(cost(t) for t in np.linspace(0.7, 1, 3001)) + 1e-9
    assert overlapping.cosine > 0.8


def test_altered_copies_keep_the_picture():
    rng = np.random.default_rng(0)
    image = np.zeros((60, 80, 3), np.uint8)
    image[10:50, 5:40] = (40, 160, 220)
    for kind in range(len(ALTERATIONS)):
        copy = altered_copy(image, kind, rng)
        assert copy.dtype == np.uint8
        assert copy.ndim == 3
        assert not (copy.shape == image.shape and (copy == image).all())
        assert copy.shape[0] >= 30
