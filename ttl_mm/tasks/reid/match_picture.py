"""A picture of what was found: a few queries, and the images ranked first for each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from ttl_mm.datasets.decode import decode_image
from ttl_mm.evaluation.retrieval import JUNK, find_relevance, score_rows

HEIGHT, WIDTH = 160, 80  # of an image
FRAME, GAP, CAPTION = 4, 6, 14
RIGHT, WRONG, QUERY = (0, 140, 60), (200, 40, 30), (60, 60, 60)


class Ranking(NamedTuple):
    """The best gallery images of one query, junk left out."""

    query: int
    gallery: np.ndarray  # (k,) indices
    scores: np.ndarray  # (k,)
    right: np.ndarray  # (k,) bool


def best_matches(
    query_features, query_ids, query_cams, gallery_features, gallery_ids, gallery_cams,
    queries: Sequence[int], k: int = 10,
) -> list[Ranking]:  # fmt: skip
    """Rank the gallery for some of the queries, by the rules of :func:`evaluate_retrieval`."""
    relevance = find_relevance(query_ids, query_cams, gallery_ids, gallery_cams)
    rankings = []
    for q, scores in score_rows(query_features, gallery_features, queries):
        scores[gallery_ids == JUNK] = -np.inf
        scores[relevance[q].same_camera] = -np.inf
        best = np.argsort(-scores, kind='stable')[:k]
        best = best[np.isfinite(scores[best])]
        right = np.isin(best, relevance[q].matches)
        rankings.append(Ranking(q, best, scores[best].copy(), right))
    return rankings


def draw_matches(
    rankings: Sequence[Ranking],
    query_path: Callable[[int], str],
    gallery_path: Callable[[int], str],
) -> Image.Image:
    """One row per query: its image, then the matches in order.

    A right match has a green frame and the word ``right``, a wrong one a red frame and ``wrong``.
    """
    columns = 1 + max(len(ranking.gallery) for ranking in rankings)
    cell_width, cell_height = WIDTH + 2 * FRAME + GAP, HEIGHT + 2 * FRAME + CAPTION + GAP
    size = GAP + columns * cell_width, GAP + len(rankings) * cell_height
    picture = Image.new('RGB', size, 'white')
    for row, ranking in enumerate(rankings):
        cells = [(query_path(ranking.query), QUERY, f'query {ranking.query}')]
        for place, (g, right) in enumerate(zip(ranking.gallery, ranking.right), 1):
            word = 'right' if right else 'wrong'
            cells.append((gallery_path(int(g)), RIGHT if right else WRONG, f'{place} {word}'))
        for column, cell in enumerate(cells):
            corner = GAP + column * cell_width, GAP + row * cell_height
            _draw_cell(picture, corner, *cell)
    return picture


def _draw_cell(picture: Image.Image, corner: tuple[int, int], path: str, color, text: str) -> None:
    x, y = corner
    draw = ImageDraw.Draw(picture)
    draw.rectangle((x, y, x + WIDTH + 2 * FRAME - 1, y + HEIGHT + 2 * FRAME - 1), fill=color)
    image = Image.fromarray(np.ascontiguousarray(decode_image(path)[:, :, ::-1]))
    picture.paste(image.resize((WIDTH, HEIGHT), Image.BICUBIC), (x + FRAME, y + FRAME))
    draw.text((x, y + HEIGHT + 2 * FRAME), text, fill=color)
