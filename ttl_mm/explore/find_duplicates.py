"""The whole search for duplicates: what is found, and the files that tell it."""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.errors import counted
from ttl_mm.explore.duplicates import (
    Centered,
    Pairs,
    Threshold,
    exact_copies,
    groups_of,
    leaked_pairs,
    mean_of,
    near_pairs,
)
from ttl_mm.explore.embedding import Embedding, embed_images
from ttl_mm.explore.near_threshold import find_threshold
from ttl_mm.explore.pages import Shown, write_groups_page
from ttl_mm.files.archives.member import image_file_size
from ttl_mm.planning.image_sources import FoundImages
from ttl_mm.report.html import shown

EXACT, NEAR, LEAK = 'exact copy', 'near duplicate', 'also in the other images'
STAYS = 'stays'
FRAMED = 'The image in a green frame stays, the others of its row are left out of clean.txt.'


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
    yield f'{counted(own, "group")} of exact copies among {len(files):,} images'
    near = Pairs(*np.zeros((3, 0), int))
    why = 'Only exact copies were looked for, since no weights were given.'
    if weights:
        near, limit = _near(found, against, weights, threshold, out, options)
        why = explain(limit, threshold)
        yield why
    groups = make_groups(files, others, exact, near)
    _write(groups, out)
    removed = {copy.file for group in groups for copy in group if copy.kind}
    clean = [file for file in files if file not in removed]
    write_name_list(out / 'clean.txt', clean)
    left_out = f'{counted(len(groups), "group")}, {counted(len(removed), "image")} to leave out'
    summary = f'{left_out}; {len(clean):,} stay.'
    leaks = sum(copy.kind == LEAK for group in groups for copy in group)
    leaked = ''
    if against:
        verb = 'is' if leaks == 1 else 'are'
        leaked = f'{counted(leaks, "image")} {verb} also among the {len(others):,} other images.'
    pictures = [_shown(number, group) for number, group in enumerate(groups, 1)]
    lead = ' '.join(filter(None, [summary, leaked, why]))
    page = write_groups_page('Duplicates', lead, pictures, FRAMED, out, 'ttl duplicates')
    yield f'{summary} The list: {out / "clean.txt"}'
    if leaked:
        yield leaked
    yield str(page.resolve())


def _near(
    found: FoundImages, against: FoundImages | None, weights: str, threshold: float | None,
    out: Path, options: dict[str, Any],
) -> tuple[Pairs, Threshold]:  # fmt: skip
    """Near pairs, by their positions in the images and then the others."""
    embedding = embed_images(found, weights, out / 'images.safetensors', **options)
    if threshold is None and len(embedding) > 1:
        config, size, device = (options.get(key) for key in ('config', 'size', 'device'))
        limit = find_threshold(embedding, weights, config, size, device)
    else:
        limit = Threshold(1.0 if threshold is None else threshold, np.nan, np.nan)
    place = _positions(embedding, found)
    images = Centered(embedding.features, mean_of(embedding.features))
    near = near_pairs(images, limit.cosine, options.get('device'))
    near = Pairs(place[near.first], place[near.second], near.cosine)
    if against:
        other = embed_images(against, weights, out / 'others.safetensors', **options)
        other_place = _positions(other, against) + len(found)
        tests = Centered(other.features, images.mean)
        leaks = leaked_pairs(images, tests, limit.cosine, options.get('device'))
        leaks = Pairs(place[leaks.first], other_place[leaks.second], leaks.cosine)
        near = Pairs(*map(np.concatenate, zip(near, leaks)))
    return near, limit


def _positions(embedding: Embedding, found: FoundImages) -> np.ndarray:
    """Where each row of the embedding is among all images: broken ones have no row."""
    place = {str(found.root / name): i for i, name in enumerate(found.names())}
    return np.array([place[file] for file in embedding.files()], dtype=int)


def explain(limit: Threshold, given: float | None) -> str:
    """One sentence on where the threshold comes from."""
    rule = f'Images with a cosine of {limit.cosine:.4f} or more count as near duplicates'
    if given is not None:
        return f'{rule}, as asked.'
    return (
        f'{rule}. This threshold was found by altering some of your images as copies usually are '
        f'(compressed again, resized, cropped, mirrored, brighter or darker): {limit.found:.0%} of '
        f'the altered copies of your images reach it, and {limit.flagged:.1%} of the images have '
        'another one that does.'
    )


def make_groups(
    files: Sequence[str], others: Sequence[str], exact: Sequence[Sequence[int]], near: Pairs
) -> list[list[Copy]]:
    """Groups of copies, the image that stays first: one of the others, else the largest file.

    Args:
        files: the images.
        others: what they are compared with; positions from ``len(files)`` on.
        exact: groups of positions whose files are equal.
        near: pairs of positions (first < second).
    """
    every = [*files, *others]
    content = {i: number for number, group in enumerate(exact) for i in group}
    equal = [pair for group in exact for pair in pairwise(group)]
    pairs = np.concatenate([np.array(equal, int).reshape(-1, 2), np.stack(near[:2], 1)])
    groups = [  # without copies among the others alone
        _first_one_first(members, every, len(files))
        for members in groups_of(pairs, len(every))
        if members[0] < len(files)
    ]
    cosines = _cosines_to({group[0] for group in groups}, near)
    return [
        [
            Copy(every[first], ''),
            *(
                Copy(every[i], _kind(i, first, content, len(files)), cosines.get((i, first)))
                for i in members
                if i < len(files)
            ),
        ]
        for first, *members in groups
    ]


def _first_one_first(members: list[int], every: Sequence[str], own: int) -> list[int]:
    leaked = members[-1] >= own
    first = members[-1] if leaked else max(members, key=lambda i: image_file_size(every[i]))
    return [first, *(i for i in members if i != first)]


def _kind(i: int, first: int, content: Mapping[int, int], own: int) -> str:
    if first >= own:
        return LEAK
    return EXACT if i in content and content[i] == content.get(first) else NEAR


def _cosines_to(firsts: Collection[int], near: Pairs) -> dict[tuple[int, int], float]:
    """The cosines of pairs that have one of ``firsts`` as one end, by (other end, first)."""
    found: dict[tuple[int, int], float] = {}
    for a, b in ((near.first, near.second), (near.second, near.first)):
        some = np.flatnonzero(np.isin(b, list(firsts)))
        found |= dict(zip(zip(a[some].tolist(), b[some].tolist()), near.cosine[some].tolist()))
    return found


def _shown(number: int, group: Sequence[Copy]) -> list[Shown]:
    first, *others = group
    shown = [Shown(first.file, f'group {number}', STAYS)]
    for copy in others:
        caption, about = 'exact', copy.kind
        if copy.kind != EXACT and copy.cosine is not None:
            caption = f'{copy.cosine:.3f}'
            about = f'{copy.kind}, cosine {caption}'
        elif copy.kind != EXACT:  # equal to a test image, or near to another one of the group
            caption = 'leak' if copy.kind == LEAK else 'chain'
        shown.append(Shown(copy.file, caption, about))
    return shown


def _write(groups: Sequence[Sequence[Copy]], out: Path) -> None:
    with (out / 'duplicates.csv').open('w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(['group', 'kind', 'cosine to the first', 'file'])
        for number, group in enumerate(groups, 1):
            for copy in group:
                cosine = '' if copy.cosine is None else f'{copy.cosine:.6f}'
                writer.writerow([number, copy.kind or STAYS, cosine, shown(copy.file)])
