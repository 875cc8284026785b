"""Pages of duplicates and of search results: rows of pictures and a table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ttl_mm.datasets.picture_grid import Tile, picture_grid
from ttl_mm.explore.thumbnails import thumbnail
from ttl_mm.report.html import shown
from ttl_mm.report.page import Picture, Section, Table, write_page

SHOWN_GROUPS = 60  # of which the page shows pictures; the table lists all
ACROSS = 8  # images in a row
SQUARE = (26, 127, 55)


def write_groups_page(
    title: str, lead: str, groups: Sequence[Sequence[tuple[str, str]]], header: str, out_dir: Path,
    command: str,
) -> Path:  # fmt: skip
    """A page of groups of images, each image a pair of its file and its caption.

    Args:
        title: heading of the page.
        lead: what was found, and how.
        groups: the images of each group.
        header: heading of the column of file names.
        out_dir: folder of the page.
        command: which the foot of the page names.
    """
    sections = []
    if groups:
        rows = [row for group in groups[:SHOWN_GROUPS] for row in _rows(group)]
        more = len(groups) - SHOWN_GROUPS
        caption = f'The first {SHOWN_GROUPS} groups; the table has {more} more.' if more > 0 else ''
        picture = Picture('pictures', picture_grid(rows), caption, wide=True)
        sections.append(Section('Pictures', pictures=[picture]))
        table = [
            [str(number), caption, shown(file)]
            for number, group in enumerate(groups, 1)
            for file, caption in group
        ]
        sections.append(
            Section('Files', tables=[Table(['group', 'image', header], table, text_columns=3)])
        )
    return write_page(title, lead, sections, out_dir, command=command)


def _rows(group: Sequence[tuple[str, str]]) -> list[list[Tile]]:
    tiles = [
        Tile(np.ascontiguousarray(thumbnail(file)[..., ::-1]), caption, SQUARE if i == 0 else None)
        for i, (file, caption) in enumerate(group)
    ]
    return [tiles[i : i + ACROSS] for i in range(0, len(tiles), ACROSS)]
