"""A picture of some queries and of the gallery images that are ranked first for each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import Tile, picture_grid
from ttl_mm.evaluation.retrieval import JUNK, find_relevance, score_rows

HEIGHT, WIDTH = 160, 80  # of an image
RIGHT, WRONG, QUERY = (0, 140, 60), (200, 40, 30), (60, 60, 60)


class Ranking(NamedTuple):
    """The best gallery images of one query, without junk."""

    query: int
    gallery: np.ndarray  # (k,) indices
    right: np.ndarray  # (k,) bool


def best_matches(
    query_features, query_ids, query_cams, gallery_features, gallery_ids, gallery_cams,
    *, queries: Sequence[int], k: int = 10,
) -> list[Ranking]:  # fmt: skip
    """Rank the gallery for some of the queries, by the rules of :func:`evaluate_retrieval`."""
    relevance = find_relevance(query_ids, query_cams, gallery_ids, gallery_cams)
    rankings = []
    for q, scores in score_rows(query_features, gallery_features, queries):
        scores[gallery_ids == JUNK] = -np.inf
        scores[relevance[q].same_camera] = -np.inf
        best = np.argsort(-scores, kind='stable')[:k]
        best = best[np.isfinite(scores[best])]
        rankings.append(Ranking(q, best, np.isin(best, relevance[q].matches)))
    return rankings


def draw_matches(
    rankings: Sequence[Ranking],
    query_path: Callable[[int], Path],
    gallery_path: Callable[[int], Path],
) -> Image.Image:
    """One row per query: its image, then the matches in order.

    A right match has a green frame and the word ``right``, a wrong one a red frame and ``wrong``.
    """
    rows = []
    for ranking in rankings:
        row = [_tile(query_path(ranking.query), f'query {ranking.query}', QUERY)]
        for place, (g, right) in enumerate(zip(ranking.gallery, ranking.right), 1):
            word, color = ('right', RIGHT) if right else ('wrong', WRONG)
            row.append(_tile(gallery_path(int(g)), f'{place} {word}', color))
        rows.append(row)
    return Image.fromarray(picture_grid(rows))


def _tile(path: Path, caption: str, color: tuple[int, int, int]) -> Tile:
    rgb = decode_image(path)[:, :, ::-1]
    return Tile(cv2.resize(rgb, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), caption, color)
