"""Copies among images: exact ones by their bytes, near ones by their features.

A near duplicate is a pair of images whose features, minus the mean of all, have a cosine above a
threshold. The threshold comes from the images themselves: some are altered as copies usually are
(:func:`altered_copy`), and it lies where these copies are found and ordinary neighbors are not.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.files.archives.member import image_file_size, read_image_file
from ttl_mm.files.regular import FEATURES

NEIGHBORS = 16  # of each image that are looked at; larger groups of copies are joined by chains
FALSE_PAIR_COST = 10  # a false pair weighs as much as so many missed copies


class Threshold(NamedTuple):
    """Where near duplicates begin, and why."""

    cosine: float
    found: float  # share of the altered copies above it
    flagged: float  # share of the images whose nearest other image is above it


class Centered:
    """Features (N, D) minus a mean (D,), computed where they are read: no copy of all of them.

    The features of ordinary networks are not negative, so all cosines are high. Around the mean of
    the images, copies stand out.
    """

    def __init__(self, features: np.ndarray, mean: np.ndarray) -> None:
        self.features, self.mean = features, mean

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows) -> np.ndarray:
        return np.asarray(self.features[rows], np.float32) - self.mean


def mean_of(features: np.ndarray) -> np.ndarray:
    """The mean (D,) of features (N, D), read in pieces."""
    pieces = range(0, len(features), 1 << 14)
    total = sum(np.asarray(features[i : i + (1 << 14)], np.float64).sum(axis=0) for i in pieces)
    return (total / len(features)).astype(np.float32)


class Pairs(NamedTuple):
    """Pairs of rows (P,) each, with their cosines."""

    first: np.ndarray
    second: np.ndarray
    cosine: np.ndarray


def altered_copy(image: np.ndarray, kind: int, rng: np.random.Generator) -> np.ndarray:
    """A copy (H, W, 3) of an image as people make them: one of five :data:`ALTERATIONS`."""
    return ALTERATIONS[kind % len(ALTERATIONS)](image, rng)


def _recompressed(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    options = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(30, 70))]
    encoded = cv2.imencode('.jpg', image, options)[1]
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR))


def _resized(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    scale = rng.uniform(0.5, 0.9)
    size = [max(1, round(side * scale)) for side in image.shape[1::-1]]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def _cropped(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = (max(1, round(side * rng.uniform(0.88, 0.97))) for side in image.shape[:2])
    top = int(rng.integers(image.shape[0] - height + 1))
    left = int(rng.integers(image.shape[1] - width + 1))
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def _mirrored(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return cv2.flip(image, 1)


def _brightened(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    factor = rng.choice([rng.uniform(0.75, 0.9), rng.uniform(1.1, 1.25)])
    return cv2.convertScaleAbs(image, alpha=float(factor))


ALTERATIONS = (_recompressed, _resized, _cropped, _mirrored, _brightened)


def exact_copies(paths: Sequence[str]) -> list[list[int]]:
    """Groups of two and more positions whose files have equal bytes; files are read in pieces."""
    by_size = defaultdict(list)
    for i, path in enumerate(paths):
        by_size[image_file_size(path)].append(i)
    by_content = defaultdict(list)
    for size, members in by_size.items():
        for i in members if len(members) > 1 else ():
            by_content[size, _digest(paths[i])].append(i)
    return sorted(group for group in by_content.values() if len(group) > 1)


def _digest(path: str) -> bytes:
    return hashlib.blake2b(read_image_file(path, FEATURES)).digest()


def choose_threshold(copies: np.ndarray, nearest: np.ndarray) -> Threshold:
    """The cosine with the least cost: missed copies, plus ten times the images flagged.

    Args:
        copies: (M,) cosines of images and altered copies of them.
        nearest: (N,) cosine of each image and an ordinary neighbor, which is no duplicate of it.
    """
    levels = np.unique(np.concatenate([copies, nearest]))
    candidates = np.append((levels[1:] + levels[:-1]) / 2, (levels[-1] + 1) / 2)
    found = 1 - np.searchsorted(np.sort(copies), candidates) / len(copies)
    flagged = 1 - np.searchsorted(np.sort(nearest), candidates) / len(nearest)
    best = int(np.argmin((1 - found) + FALSE_PAIR_COST * flagged))
    return Threshold(float(candidates[best]), float(found[best]), float(flagged[best]))


def near_pairs(features: Centered, cosine: float, device: str | None = None) -> Pairs:
    """Pairs (i < j) with at least this cosine, among the nearest 16 others of every image."""
    count = min(NEIGHBORS + 1, len(features))
    first, second, cosines = _above(features, features, count, cosine, device)
    # a pair is found from one end or from both; as one number it is sorted in little memory
    low, high = np.minimum(first, second), np.maximum(first, second)
    keys, place = np.unique(low * len(features) + high, return_index=True)
    first, second = np.divmod(keys, len(features))
    other = first != second  # every image is its own nearest
    return Pairs(first[other], second[other], cosines[place][other])


def leaked_pairs(
    features: Centered, others: Centered, cosine: float, device: str | None = None
) -> Pairs:
    """Pairs of a row of ``features`` and one of ``others`` with at least this cosine."""
    return Pairs(*_above(features, others, min(NEIGHBORS, len(others)), cosine, device))


def _above(queries, train, count: int, cosine: float, device) -> tuple[np.ndarray, ...]:
    """Query row, train row and cosine of the nearest that reach ``cosine``, panel by panel."""
    found, start = [], 0
    for similarity, index in nearest_neighbors(train, queries, count, device, cosine):
        row, place = (similarity >= cosine).nonzero(as_tuple=True)
        found.append((row + start, index[row, place], similarity[row, place]))
        start += len(similarity)
    columns = (np.concatenate([part.cpu().numpy() for part in parts]) for parts in zip(*found))
    return tuple(columns)


def groups_of(pairs: np.ndarray, total: int) -> list[list[int]]:
    """Images that are connected by pairs (P, 2), groups of two and more, in ascending order."""
    if not len(pairs):
        return []
    rows, columns = pairs.T
    from scipy.sparse import coo_array  # only this needs them
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), (total, total))
    _, member = connected_components(graph, directed=False)
    groups = defaultdict(list)
    for i in np.unique(np.concatenate([rows, columns])).tolist():
        groups[member[i]].append(i)
    return sorted(groups.values())
