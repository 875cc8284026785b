"""Identity and camera in the file names of person re-identification data.

==============  ===========================  ========  ======
data            name                         identity  camera
==============  ===========================  ========  ======
SYSU-30k        000028311_c1_1.jpg           28311     1
SYSU-30k        0000others_c1_7.jpg          -1000     1
Market-1501     0002_c1s1_000451_03.jpg      2         1
Market-1501     0000_c6s2_074243_06.jpg      0         6
Market-1501     -1_c3s1_001251_02.jpg        -1        3
==============  ===========================  ========  ======

Distractors (-1000 and 0) match no query. Junk (-1) is removed from every ranking.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ttl_mm.datasets.data_report import shorten
from ttl_mm.errors import UserError
from ttl_mm.evaluation.retrieval import JUNK

DISTRACTORS = (-1000, 0)
_NAME = re.compile(r'(?P<identity>-1|\d+|0000others)_c(?P<camera>\d+)(?!\d)')
_IDENTITY = re.compile(r'(-1|\d+|0000others)_')


class ParsedNames(NamedTuple):
    """The names that could be read, with identities and cameras, and those that could not."""

    names: list[str]
    ids: np.ndarray  # (N,)
    cams: np.ndarray  # (N,)
    faults: dict[str, list[str]]  # what a name lacks -> such names


def parse_name(name: str) -> tuple[int, int]:
    """Identity and camera of an image, from the last part of its path.

    Raises:
        ValueError: The name lacks one of them; the message says which.
    """
    file_name = name.rpartition('/')[2]
    if found := _NAME.match(file_name):
        return _identity(found['identity']), int(found['camera'])
    raise ValueError('no camera' if _IDENTITY.match(file_name) else 'no identity')


def parse_names(names: Iterable[str]) -> ParsedNames:
    """Identities and cameras of many images."""
    kept, parsed, faults = [], [], defaultdict(list)
    for name in names:
        try:
            parsed.append(parse_name(name))
            kept.append(name)
        except ValueError as fault:
            faults[str(fault)].append(name)
    ids, cams = np.array(parsed, np.int32).reshape(-1, 2).T
    return ParsedNames(kept, ids, cams, faults)


def require_names(names: Iterable[str], where: str) -> tuple[np.ndarray, np.ndarray]:
    """Identities and cameras of images that must all have both, each (N,).

    Raises:
        UserError: Some names are malformed; the message says how many, and shows the first.
    """
    parsed = parse_names(names)
    if parsed.faults:
        found = [f'{name} has {lack}' for lack, bad in parsed.faults.items() for name in bad]
        raise UserError(
            f'malformed file names in {where}, {len(found)} in all ({shorten(found)}): name images '
            'like 000028311_c1_1.jpg or 0002_c1s1_000451_03.jpg.'
        )
    return parsed.ids, parsed.cams


def train_identities(names: Iterable[str]) -> set[int]:
    """The identities (in SYSU-30k: the bags) of training images, where their names contain one.

    If the name of a folder is a number, it is the identity of all images in it; otherwise the
    identity is taken from each file name, as in Market-1501.
    """
    numbers: set[str] = set()  # most names repeat their folder's
    for name in names:
        folder, _, file_name = name.rpartition('/')
        last = folder.rpartition('/')[2]
        if last.isdecimal():
            numbers.add(last)
        elif match := _IDENTITY.match(file_name):
            numbers.add(match[1])
    return {_identity(number) for number in numbers} - {JUNK, *DISTRACTORS}


def _identity(text: str) -> int:
    return DISTRACTORS[0] if text == '0000others' else int(text)
