"""The names of the images of an archive, in a small file beside it.

An archive in a store need not be fetched to know its images if ``images-000000.tar.names`` lies
beside it. The first line tells the size of the archive, each further one the label of an image, -1
for none, a blank and its name, in the order of the archive. When the archive is fetched, they are
compared with what it holds.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ttl_mm.files.archives.entry import check_name

ENDING = '.names'
MOST_BYTES = 2**28  # of such a file
SMALLEST = 512  # bytes that an image takes in an archive at least
_HEADER = 'ttl_mm names 1 of '
_LABEL = re.compile('-?[0-9]{1,10}')


class Listing(NamedTuple):
    """What a list of names tells."""

    names: list[str]
    labels: list[int]


def listing_text(size: int, names: Iterable[str], labels: Iterable[int]) -> str:
    r"""The list of an archive of ``size`` bytes.

    Example:
        >>> listing_text(2048, ['cat.jpg'], [3])
        'ttl_mm names 1 of 2048\n3 cat.jpg\n'
    """
    lines = [f'{label} {name}\n' for label, name in zip(labels, names)]
    return f'{_HEADER}{size}\n{"".join(lines)}'


def parse_listing(text: str, size: int, most_label: int) -> Listing | None:
    """The names in a list; None if it is no list of this archive, which has ``size`` bytes.

    Raises:
        ValueError: It is one, and damaged.
    """
    header, _, rest = text.partition('\n')
    if header != f'{_HEADER}{size}':
        return None
    names, labels = [], []
    for number, line in enumerate(rest.split('\n')[:-1], 2):
        label, _, name = line.partition(' ')
        value = int(label) if _LABEL.fullmatch(label) else -2
        if not -1 <= value <= most_label:
            raise ValueError(f'line {number} has no label: {line[:40]!r}')
        names.append(check_name(name))
        labels.append(value)
    if not names or not rest.endswith('\n') or len(names) > size // SMALLEST:
        raise ValueError(f'{len(names)} images cannot be all of an archive of {size} bytes')
    if len(set(names)) != len(names):
        raise ValueError('a name stands in it twice')
    return Listing(names, labels)
