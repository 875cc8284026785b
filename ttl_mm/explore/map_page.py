"""A map of images as a page: ``index.html`` with the points, ``thumbnails/`` beside it."""

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.explore.embedding import Embedding
from ttl_mm.explore.projection import unit_rows
from ttl_mm.explore.thumbnails import ACROSS, CELL, PER_SHEET, thumbnail, write_sheets
from ttl_mm.report.html import as_html, as_script_data, write_html

NEIGHBORS = 12
MOST_CLUSTERS = 20
MOST_FOLDERS = 200


@dataclass
class MapData:
    """What the page shows of N images; rows are in the order in which the page stores them."""

    paths: list[str]
    root: str  # what stands before a path in a list, with its slash
    points: np.ndarray  # (N, 2) in [0, 1]
    neighbors: np.ndarray  # (N, k) rows of the nearest, nearest first
    similarities: np.ndarray  # (N, k) cosines
    colorings: dict[str, list]  # name: [kind, values (N,), names of classes or None]


def write_map(
    embedding: Embedding, points: np.ndarray, out_dir: str | Path, title: str = 'Map of images',
    make_thumbnail: Callable[[str], np.ndarray] = thumbnail,
) -> Path:  # fmt: skip
    """Write the page and the thumbnails, and return the page's path.

    Args:
        embedding: of N images; neighbors are compared by cosine.
        points: (N, 2) in [0, 1].
        out_dir: made where it does not exist.
        title: heading of the page.
        make_thumbnail: of a file, see :func:`~ttl_mm.explore.thumbnails.thumbnail`.
    """
    out_dir = Path(out_dir)
    order = locality_order(points)  # so that images near each other share a sheet
    embedding = embedding.rows(order)
    data = map_data(embedding, points[order])
    write_sheets(embedding.files(), out_dir / 'thumbnails', make_thumbnail)
    template = files('ttl_mm.explore').joinpath('data/map.html').read_text('utf-8')
    write_html(out_dir / 'index.html', template, title=as_html(title), data=page_json(data))
    return out_dir / 'index.html'


def map_data(embedding: Embedding, points: np.ndarray) -> MapData:
    """Neighbors and colorings of the images."""
    units = torch.from_numpy(unit_rows(embedding.features))
    similarities, neighbors = other_neighbors(units, min(NEIGHBORS, len(units) - 1))
    colorings: dict[str, list] = {}
    if embedding.labels is not None:
        colorings['label'] = ['class', embedding.labels.tolist(), list(embedding.classes)]
    if folders := folders_of(embedding.paths):
        colorings['folder'] = ['class', *folders]
    clusters = min(MOST_CLUSTERS, max(1, int(np.sqrt(len(units) / 2))))
    from sklearn.cluster import MiniBatchKMeans  # half a second, which only this needs

    kmeans = MiniBatchKMeans(clusters, n_init=3, random_state=0).fit(units.numpy())
    colorings['cluster'] = ['class', kmeans.labels_.tolist(), None]
    if neighbors.shape[1]:  # the farthest neighbor that is kept is near where images are dense
        ranks = similarities[:, -1].argsort().argsort() / max(1, len(units) - 1)
        colorings['density'] = ['number', np.round(ranks, 4).tolist(), None]
    root = os.path.join(embedding.root, '') if embedding.root.is_absolute() else ''
    return MapData(embedding.paths, root, points, neighbors, similarities, colorings)


def folders_of(paths: Sequence[str]) -> tuple[list[int], list[str]] | None:
    """The folder (N,) of every image below the one they share, and the names; None if too many."""
    parents = [os.path.dirname(path) for path in paths]
    shared = os.path.commonpath(parents) if all(parents) else ''
    below = [os.path.relpath(parent or '.', shared or '.').split(os.sep)[0] for parent in parents]
    names = sorted(set(below))
    if not 2 <= len(names) <= MOST_FOLDERS:
        return None
    number = {name: i for i, name in enumerate(names)}
    return [number[folder] for folder in below], names


def other_neighbors(units: torch.Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and rows (N, count) of the nearest others of every row, nearest first."""
    if not count:
        return np.zeros((len(units), 0), np.float32), np.zeros((len(units), 0), np.int64)
    found = nearest_neighbors(units, units, count + 1)
    similarity, index = (torch.cat(parts).numpy() for parts in zip(*found))
    own = index == np.arange(len(index))[:, None]
    own[~own.any(axis=1), -1] = True  # more copies than places: the last one goes
    shape = (len(index), count)
    return similarity[~own].reshape(shape), index[~own].reshape(shape)


def locality_order(points: np.ndarray, bits: int = 10) -> np.ndarray:
    """An order (N,) in which neighbors in the plane are mostly near each other: the Z curve."""
    cells = np.clip(points * (1 << bits), 0, (1 << bits) - 1).astype(np.int64)
    code = np.zeros(len(points), np.int64)
    for bit in range(bits):
        code |= (cells[:, 0] >> bit & 1) << (2 * bit) | (cells[:, 1] >> bit & 1) << (2 * bit + 1)
    return np.argsort(code, kind='stable')


def page_json(data: MapData) -> str:
    """What the script of the page reads."""
    content = {
        'paths': data.paths,
        'root': data.root,
        'points': _packed(data.points, np.float32),
        'neighbors': _packed(data.neighbors, np.uint32),
        'similarities': _packed(data.similarities, np.float32),
        'colorings': data.colorings,
        'sheet': {'cell': CELL, 'across': ACROSS, 'perSheet': PER_SHEET},
    }
    return as_script_data(content)


def _packed(array: np.ndarray, dtype) -> str:
    """The values in little-endian bytes, as base64."""
    little = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder('<'))
    return base64.b64encode(little.tobytes()).decode()
