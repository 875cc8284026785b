"""Pages of duplicates and of search results: rows of pictures and a table."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttl_mm.datasets.picture_grid import Tile, picture_grid
from ttl_mm.explore.thumbnails import thumbnail
from ttl_mm.report.page import Picture, Section, Table, write_page

SHOWN_GROUPS = 60  # of which the page shows pictures
LISTED = 5000  # images in the table of a page
ACROSS = 8  # images in a row
SQUARE = (26, 127, 55)


class Shown(NamedTuple):
    """An image of a group: its file, a few characters above its picture, and words about it."""

    file: str
    caption: str
    about: str


def write_groups_page(
    title: str, lead: str, groups: Sequence[Sequence[Shown]], framed: str, out_dir: Path,
    command: str,
) -> Path:  # fmt: skip
    """A page of groups of images, the first one of each in a green frame.

    Args:
        title: heading of the page.
        lead: what was found, and how.
        groups: the images of each group.
        framed: a sentence that says what the frame means.
        out_dir: folder of the page.
        command: which the foot of the page names.
    """
    sections = []
    if groups:
        rows = [row for group in groups[:SHOWN_GROUPS] for row in _rows(group)]
        if len(groups) > SHOWN_GROUPS:
            framed += f' These are the first {SHOWN_GROUPS} of {len(groups):,} groups.'
        picture = Picture('pictures', picture_grid(rows), framed, wide=True)
        sections = [Section('Pictures', pictures=[picture]), _table(groups)]
    return write_page(title, lead, sections, out_dir, command=command)


def _table(groups: Sequence[Sequence[Shown]]) -> Section:
    total = sum(map(len, groups))
    text = f'The first {LISTED:,} of {total:,} images.' if total > LISTED else ''
    every = ([str(n), one.about, one.file] for n, group in enumerate(groups, 1) for one in group)
    table = Table(['group', 'image', 'file'], list(islice(every, LISTED)), text_columns=3)
    return Section('Files', text, tables=[table])


def _rows(group: Sequence[Shown]) -> list[list[Tile]]:
    tiles = [
        Tile(_picture(one.file), one.caption, SQUARE if i == 0 else None)
        for i, one in enumerate(group)
    ]
    return [tiles[i : i + ACROSS] for i in range(0, len(tiles), ACROSS)]


def _picture(file: str) -> np.ndarray:
    return np.ascontiguousarray(thumbnail(file)[..., ::-1])
