"""Person re-identification: rank a gallery for every query, exactly and in bounded memory.

The score of a gallery image is its dot product with the query (the cosine, if the features have
length 1). Images are ranked by descending score, equal scores in gallery order. A *match* shows the
query's identity from another camera. *Junk* (identity -1, or the query's identity from the query's
own camera) is taken out of the ranking: it is neither a match nor a mistake. All else is a mistake.
"""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from ttl_mm.errors import UserError, counted

JUNK = -1
RANKS = (1, 5, 10)
SCORE_BYTES = 960_000_000  # half of SYSU-30k's scores: two passes over the gallery, below 1 GB
CHUNK_ROWS = 16384  # gallery rows converted, or moved to the device, at once


class Relevance(NamedTuple):
    """Gallery indices, ascending, of a query's matches and of its own-camera junk."""

    matches: np.ndarray
    same_camera: np.ndarray


def evaluate_retrieval(
    query_features, query_ids, query_cams, gallery_features, gallery_ids, gallery_cams, *,
    device: str | torch.device = 'cpu', score_bytes: int = SCORE_BYTES,
) -> dict[str, float]:  # fmt: skip
    """CMC and mAP in percent, averaged over the queries that have a match.

    Args:
        query_features: Array or memory map (Q, D).
        query_ids: Identities (Q,).
        query_cams: Cameras (Q,).
        gallery_features: Array or memory map (G, D).
        gallery_ids: Identities (G,); -1 is junk.
        gallery_cams: Cameras (G,).
        device: Where the matrix product is computed.
        score_bytes: Memory for scores. Fewer bytes mean more passes over the gallery.

    Returns:
        ``rank-1``, ``rank-5``, ``rank-10``: queries with a match among the first k. ``mAP``: mean
        of the precision at each match. ``mAP-trapezoid``: as the SYSU-30k release computes it, see
        :func:`trapezoid_average_precision`. ``valid_queries`` and ``skipped_queries`` (no match).

    Raises:
        UserError: Shapes disagree, features are not finite, or no query has a match.

    >>> gallery = np.array([[1.0, 0], [0.9, 0.1], [0, 1]])  # the first one is from the own camera
    >>> found = evaluate_retrieval(gallery[:1], [7], [0], gallery, [7, 8, 7], [0, 1, 1])
    >>> found['rank-1'], found['rank-5'], found['mAP']
    (0.0, 100.0, 50.0)
    """
    query = _Images('query', query_features, query_ids, query_cams)
    gallery = _Images('gallery', gallery_features, gallery_ids, gallery_cams)
    if query.features.shape[1] != gallery.features.shape[1]:
        raise UserError(
            f'query features have {query.features.shape[1]} values, gallery features '
            f'{gallery.features.shape[1]}: extract both with the same model.'
        )
    relevance = find_relevance(query.ids, query.cams, gallery.ids, gallery.cams)
    valid = [q for q, relevant in enumerate(relevance) if len(relevant.matches)]
    if not valid:
        raise UserError(
            f'none of the {len(query.ids)} queries has a match (its identity from another camera) '
            f'among the {len(gallery.ids)} gallery images: check identities and cameras.'
        )
    positions = []  # per valid query: 0-based ranks of its matches, ascending
    junk = np.flatnonzero(gallery.ids == JUNK)
    for q, scores in score_rows(query.features, gallery.features, valid, device, score_bytes):
        scores[junk] = -np.inf
        scores[relevance[q].same_camera] = -np.inf
        positions.append(rank_positions(scores, relevance[q].matches))
    best = np.array([p[0] for p in positions])
    result = {f'rank-{k}': 100 * float(np.mean(best < k)) for k in RANKS}
    means = {'mAP': average_precision, 'mAP-trapezoid': trapezoid_average_precision}
    for name, measure in means.items():
        result[name] = 100 * float(np.mean([measure(p) for p in positions]))
    skipped = len(query.ids) - len(valid)
    return {**result, 'valid_queries': len(valid), 'skipped_queries': skipped}


def average_precision(positions: np.ndarray) -> float:
    """Mean over the matches of (matches so far) / (images so far), positions 0-based ascending.

    >>> average_precision(np.array([0, 3]))  # (1/1 + 2/4) / 2
    0.75
    """
    return float(np.mean(np.arange(1, len(positions) + 1) / (positions + 1)))


def trapezoid_average_precision(positions: np.ndarray) -> float:
    """The area under the precision-recall curve by trapezoids, as the SYSU-30k release computes it.

    Each match adds the mean of the precisions just before and at it; before the first image the
    precision is 1. A single match at position r > 0 so gives 0.5 / (r + 1), half the standard AP.

    >>> trapezoid_average_precision(np.array([0])), trapezoid_average_precision(np.array([1]))
    (1.0, 0.25)
    """
    found = np.arange(len(positions))
    before = np.where(positions > 0, found / np.maximum(positions, 1), 1.0)
    at = (found + 1) / (positions + 1)
    return float(np.mean((before + at) / 2))


def find_relevance(query_ids, query_cams, gallery_ids, gallery_cams) -> list[Relevance]:
    """What each query is to find, and what is to be taken out for it alone."""
    order = np.argsort(gallery_ids, kind='stable')
    ordered_ids = gallery_ids[order]
    first = np.searchsorted(ordered_ids, query_ids, 'left')
    last = np.searchsorted(ordered_ids, query_ids, 'right')
    relevance = []
    for q, identity in enumerate(query_ids):
        same_id = order[first[q] : last[q]] if identity != JUNK else order[:0]
        other_camera = gallery_cams[same_id] != query_cams[q]
        relevance.append(Relevance(same_id[other_camera], same_id[~other_camera]))
    return relevance


def rank_positions(scores: np.ndarray, matches: np.ndarray) -> np.ndarray:
    """0-based ranks, ascending, of ``matches`` when ``scores`` (G,) are sorted stably, best first.

    Counting what comes before a match costs two passes; sorting the gallery costs many.

    >>> rank_positions(np.array([0.5, 0.9, 0.5, 0.1]), np.array([2, 1])).tolist()
    [0, 2]
    """
    ranks = [
        np.count_nonzero(scores > scores[m]) + np.count_nonzero(scores[:m] == scores[m])
        for m in matches
    ]
    return np.sort(ranks)


def score_rows(
    query_features, gallery_features, queries, device='cpu', score_bytes: int = SCORE_BYTES
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (q, scores (G,)) for each of ``queries``; the scores are overwritten later on."""
    dtype = np.result_type(query_features.dtype, gallery_features.dtype, np.float32)
    size = len(gallery_features)
    passes = -(-len(queries) // max(1, score_bytes // (size * dtype.itemsize)))
    rows = -(-len(queries) // passes)
    in_place = torch.device(device).type == 'cpu' and gallery_features.dtype == dtype
    step = size if in_place else CHUNK_ROWS
    block = torch.empty(rows, size, dtype=getattr(torch, dtype.name))  # (B, G)
    for start in range(0, len(queries), rows):
        chosen = list(queries[start : start + rows])
        query = _tensor(query_features[chosen], dtype, device)  # (B, D)
        scores = block[: len(chosen)]
        for left in range(0, size, step):
            chunk = _tensor(gallery_features[left : left + step], dtype, device)  # (C, D)
            if in_place:
                torch.mm(query, chunk.T, out=scores)
            else:
                scores[:, left : left + step] = query @ chunk.T
        array = scores.numpy()
        if not np.isfinite([array.min(), array.max()]).all():
            raise UserError(_not_finite(array, chosen))
        yield from zip(chosen, array)


def _tensor(array, dtype: np.dtype, device) -> torch.Tensor:
    array = np.asarray(array, dtype=dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', 'The given NumPy array is not writable')  # only read here
        return torch.from_numpy(array).to(device)


def _not_finite(scores: np.ndarray, queries: list[int]) -> str:
    bad = ~np.isfinite(scores)  # (B, G)
    gallery = np.flatnonzero(bad.all(axis=0))
    if 0 < len(gallery) < bad.shape[1]:
        where = f'{counted(len(gallery), "gallery feature")}, the first of image {gallery[0]}'
    else:
        rows = np.flatnonzero(bad.any(axis=1))
        count = counted(len(rows), 'query', 'queries')
        where = f'the features of {count}, the first of query {queries[rows[0]]}'
    bad_values = f'values that are not finite or too large in {where}'
    return f'{bad_values}: extract them again with a sound checkpoint.'


class _Images:
    """Features (N, D), identities (N,) and cameras (N,) of one side, checked."""

    def __init__(self, name: str, features, ids, cams) -> None:
        self.features = features if hasattr(features, 'dtype') else np.asarray(features)
        if isinstance(self.features, torch.Tensor):
            self.features = self.features.detach().cpu().numpy()
        self.ids, self.cams = np.asarray(ids), np.asarray(cams)
        if self.features.ndim != 2:
            raise UserError(f'{name} features have shape {self.features.shape}, not (images, D).')
        found = len(self.features), self.ids.shape, self.cams.shape
        if found != (found[0], (found[0],), (found[0],)):
            raise UserError(
                f'{name} has {found[0]} features, identities of shape {found[1]} and cameras of '
                f'shape {found[2]}: one identity and one camera per feature are needed.'
            )
        if not found[0]:
            raise UserError(f'{name} is empty: there is nothing to rank.')
