import numpy as np
import pytest
import torch

from ttl_mm.errors import UserError
from ttl_mm.evaluation import retrieval
from ttl_mm.evaluation.retrieval import (
    average_precision,
    evaluate_retrieval,
    trapezoid_average_precision,
)


def naive(query, query_ids, query_cams, gallery, gallery_ids, gallery_cams):
    """Sort everything, drop junk, walk down the list: one query and one image at a time."""
    first, precision, trapezoid, skipped = [], [], [], 0
    for feature, identity, camera in zip(query, query_ids, query_cams):
        scores = [sum(a * b for a, b in zip(feature, other)) for other in gallery]
        ranking = sorted(range(len(gallery)), key=lambda g: (-scores[g], g))
        hits = []
        for g in ranking:
            same = gallery_ids[g] == identity
            if gallery_ids[g] == -1 or (same and gallery_cams[g] == camera):
                continue
            hits.append(bool(same))
        if not any(hits):
            skipped += 1
            continue
        first.append(hits.index(True))
        precisions, areas, old = [], [], 1.0
        for n in range(1, len(hits) + 1):
            now = sum(hits[:n]) / n
            if hits[n - 1]:
                precisions.append(now)
                areas.append((old + now) / 2)
            old = now
        precision.append(sum(precisions) / len(precisions))
        trapezoid.append(sum(areas) / len(areas))
    count = len(first)
    return {
        **{f'rank-{k}': 100 * sum(f < k for f in first) / count for k in (1, 5, 10)},
        'mAP': 100 * sum(precision) / count,
        'mAP-trapezoid': 100 * sum(trapezoid) / count,
        'valid_queries': count,
        'skipped_queries': skipped,
    }


def random_case(seed: int) -> tuple:
    """Few small integers make many equal scores, and are exact in float16."""
    rng = np.random.default_rng(seed)
    queries, gallery = rng.integers(1, 12), rng.integers(8, 60)
    dtype = rng.choice([np.float16, np.float32, np.float64])
    gallery_ids = rng.integers(-1, 9, gallery)  # -1 junk, 0 distractor
    query_ids = rng.integers(1, 12, queries)  # 9 to 11 are missing in the gallery
    query_ids[0], gallery_ids[-1] = 3, 3
    query_cams, gallery_cams = rng.integers(1, 4, queries), rng.integers(1, 4, gallery)
    query_cams[0], gallery_cams[-1] = 1, 2
    query, images = (rng.integers(-2, 3, (n, 4)).astype(dtype) for n in (queries, gallery))
    return query, query_ids, query_cams, images, gallery_ids, gallery_cams


def test_equals_sorting_everything(monkeypatch):
    monkeypatch.setattr(retrieval, 'CHUNK_ROWS', 7)
    ties = junk = distractors = skipped = 0  # cases that hold what the rules are about
    for seed in range(100):
        case = query, query_ids, query_cams, gallery, gallery_ids, gallery_cams = random_case(seed)
        expected = naive(*case)
        for score_bytes in (1, 1000, 1 << 29):
            result = evaluate_retrieval(*case, score_bytes=score_bytes)
            assert result == pytest.approx(expected, abs=1e-10), seed
        scores = query.astype(int) @ gallery.astype(int).T
        same = query_ids[:, None] == gallery_ids
        ties += any(len(set(row)) < len(row) for row in scores)
        junk += bool((same & (query_cams[:, None] == gallery_cams)).any())
        distractors += 0 in gallery_ids
        skipped += expected['skipped_queries'] > 0
    assert min(ties, junk, distractors, skipped) > 50


def test_memory_maps_tensors_and_large_scores(tmp_path):
    case = list(random_case(5))
    expected = evaluate_retrieval(*case)
    for i in (0, 3):
        np.save(tmp_path / f'{i}.npy', case[i].astype(np.float32))
        case[i] = np.load(tmp_path / f'{i}.npy', mmap_mode='r')
    assert evaluate_retrieval(*case) == expected
    case[0], case[3] = torch.from_numpy(np.array(case[0])), torch.from_numpy(np.array(case[3]))
    assert evaluate_retrieval(*case) == expected
    case = [abs(x.astype(np.float32)) if x.ndim == 2 else x for x in random_case(5)]
    large = [x * np.float32(2**61) if x.ndim == 2 else x for x in case]
    assert evaluate_retrieval(*large) == evaluate_retrieval(*case)


def test_single_match_formulas_and_collapse_earns_nothing():
    for position in (0, 1, 4, 99):
        assert average_precision(np.array([position])) == 1 / (position + 1)
        expected = 1 if position == 0 else 0.5 / (position + 1)
        assert trapezoid_average_precision(np.array([position])) == expected
    ones = np.ones((50, 3), np.float32)
    cameras, ids = np.full(50, 1), np.arange(50)
    result = evaluate_retrieval(ones, ids, cameras + 1, ones, ids[::-1], cameras)
    assert (result['rank-1'], result['rank-10']) == (2, 20)


def test_bad_input_is_named():
    names = ['query', 'query_ids', 'query_cams', 'gallery', 'gallery_ids', 'gallery_cams']
    good = dict(zip(names, random_case(0)))
    query, gallery = good['query'].copy(), good['gallery'].copy()
    query[0, 1], gallery[2, 3] = np.nan, np.inf
    empty = {'gallery': np.zeros((0, 4)), 'gallery_ids': [], 'gallery_cams': []}
    for changes, message in (
        ({'query_ids': np.full_like(good['query_ids'], -1)}, 'none of the .* has a match'),
        ({'query_cams': good['query_cams'][:-1]}, 'query has .* cameras of shape'),
        ({'gallery': np.zeros(3)}, r'gallery features have shape \(3,\)'),
        ({'gallery': np.zeros((len(gallery), 5))}, 'query features have 4 values'),
        (empty, 'gallery is empty'),
        ({'gallery': gallery}, 'too large in 1 gallery feature, the first of image 2:'),
        ({'query': query}, 'features of 1 query, the first of query 0:'),
    ):
        with pytest.raises(UserError, match=message):
            evaluate_retrieval(*{**good, **changes}.values())
