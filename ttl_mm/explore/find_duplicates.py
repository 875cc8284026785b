"""The whole search for duplicates: what is found, and the files that tell it."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.explore.duplicates import (
    Centered,
    Threshold,
    exact_copies,
    groups_of,
    leaked_pairs,
    mean_of,
    near_pairs,
)
from ttl_mm.explore.embedding import Embedding, embed_images
from ttl_mm.explore.near_threshold import find_threshold
from ttl_mm.explore.pages import write_groups_page
from ttl_mm.planning.image_sources import FoundImages
from ttl_mm.report.html import shown

EXACT, NEAR, LEAK = 'exact copy', 'near duplicate', 'also in the other images'


class Copy(NamedTuple):
    """A file of a group, and what it is to the first one of the group, which stays."""

    file: str
    kind: str  # '' for the one that stays
    cosine: float | None = None


def find_duplicates(
    found: FoundImages, against: FoundImages | None, weights: str | None,
    threshold: float | None, out: Path, options: dict[str, Any],
) -> Iterator[str]:  # fmt: skip
    """Write the page, ``duplicates.csv`` and ``clean.txt`` into ``out``; yield lines to print.

    Args:
        found: the images; of each group of copies the largest file stays.
        against: other images, such as those of a test: what is among them does not stay.
        weights: a checkpoint; without one only exact copies are found.
        threshold: the cosine of near duplicates; by default it is found with altered copies.
        out: folder.
        options: of :func:`~ttl_mm.explore.embedding.embed_images`.
    """
    files = [str(found.root / name) for name in found.names()]
    others = [str(against.root / name) for name in against.names()] if against else []
    exact = exact_copies(files + others)
    own = sum(sum(i < len(files) for i in group) > 1 for group in exact)
    yield f'{own} groups of exact copies among {len(files):,} images'
    near: dict[tuple[int, int], float] = {}
    why = 'Only exact copies were looked for, since no weights were given.'
    if weights:
        near, limit = _near(found, against, weights, threshold, out, options)
        why = explain(limit, threshold)
        yield why
    groups = make_groups(files, others, exact, near)
    _write(groups, out)
    removed = {copy.file for group in groups for copy in group if copy.kind}
    clean = [name for name, file in zip(found.names(), files) if file not in removed]
    write_name_list(out / 'clean.txt', clean)
    pictures = [_shown(group) for group in groups]
    page = write_groups_page('Duplicates', why, pictures, 'file', out, 'ttl duplicates')
    left_out = f'{len(groups)} groups, {len(removed)} images to leave out'
    yield f'{left_out}; {len(clean):,} stay: {out / "clean.txt"}'
    leaks = sum(copy.kind == LEAK for group in groups for copy in group)
    if against:
        yield f'{leaks} images are also among the {len(others):,} other images'
    yield str(page.resolve())


def _near(
    found: FoundImages, against: FoundImages | None, weights: str, threshold: float | None,
    out: Path, options: dict[str, Any],
) -> tuple[dict[tuple[int, int], float], Threshold]:  # fmt: skip
    """Cosines of near pairs, by their positions in the images and then the others."""
    embedding = embed_images(found, weights, out / 'images.safetensors', **options)
    if threshold is None and len(embedding) > 1:
        config, size, device = (options.get(key) for key in ('config', 'size', 'device'))
        limit = find_threshold(embedding, weights, config, size, device)
    else:
        limit = Threshold(1.0 if threshold is None else threshold, np.nan, np.nan)
    place = _positions(embedding, list(found.names()))
    images = Centered(embedding.features, mean_of(embedding.features))
    pairs = near_pairs(images, limit.cosine, options.get('device'))
    ends = zip(place[pairs.first], place[pairs.second], pairs.cosine)
    near = {(int(a), int(b)): float(c) for a, b, c in ends}
    if against:
        other = embed_images(against, weights, out / 'others.safetensors', **options)
        other_place = _positions(other, list(against.names())) + len(found)
        tests = Centered(other.features, images.mean)
        pairs = leaked_pairs(images, tests, limit.cosine, options.get('device'))
        ends = zip(place[pairs.first], other_place[pairs.second], pairs.cosine)
        near |= {(int(a), int(b)): float(c) for a, b, c in ends}
    return near, limit


def _positions(embedding: Embedding, names: Sequence[str]) -> np.ndarray:
    """Where each row of the embedding is among all names: broken images have no row."""
    place = {name: i for i, name in enumerate(names)}
    return np.array([place[path] for path in embedding.paths], dtype=int)


def explain(limit: Threshold, given: float | None) -> str:
    """One sentence on where the threshold comes from."""
    rule = f'Images with a cosine of {limit.cosine:.4f} or more count as near duplicates'
    if given is not None:
        return f'{rule}, as asked.'
    return (
        f'{rule}: {limit.found:.0%} of the altered copies of your images reach it, and '
        f'{limit.flagged:.1%} of the images have another one that does.'
    )


def make_groups(
    files: Sequence[str],
    others: Sequence[str],
    exact: Sequence[Sequence[int]],
    near: Mapping[tuple[int, int], float],
) -> list[list[Copy]]:
    """Groups of copies, the image that stays first: one of the others, else the largest file.

    Args:
        files: the images.
        others: what they are compared with; positions from ``len(files)`` on.
        exact: groups of positions whose files are equal.
        near: cosine of every near pair of positions (i < j).
    """
    every = [*files, *others]
    content = {i: number for number, group in enumerate(exact) for i in group}
    pairs = [pair for group in exact for pair in pairwise(group)]
    groups = []
    for members in groups_of([*pairs, *near], len(every)):
        if members[0] >= len(files):
            continue  # copies among the others alone
        leaked = members[-1] >= len(files)
        first = members[-1] if leaked else max(members, key=lambda i: os.stat(every[i]).st_size)
        group = [Copy(every[first], '')]
        for i in members:
            if i == first or i >= len(files):
                continue
            equal = i in content and content[i] == content.get(first)
            kind = LEAK if leaked else EXACT if equal else NEAR
            group.append(Copy(every[i], kind, near.get((min(i, first), max(i, first)))))
        groups.append(group)
    return groups


def _shown(group: Sequence[Copy]) -> list[tuple[str, str]]:
    return [(copy.file, f'{copy.cosine:.3f}' if copy.cosine else copy.kind) for copy in group]


def _write(groups: Sequence[Sequence[Copy]], out: Path) -> None:
    with (out / 'duplicates.csv').open('w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(['group', 'kind', 'cosine to the first', 'file'])
        for number, group in enumerate(groups, 1):
            for copy in group:
                cosine = '' if copy.cosine is None else f'{copy.cosine:.6f}'
                writer.writerow([number, copy.kind or 'stays', cosine, shown(copy.file)])
