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

Distractors (-1000 and 0) are nobody's match. Junk (-1) is taken out of every ranking.
"""

import re
from collections.abc import Iterable

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.evaluation.retrieval import JUNK

DISTRACTORS = (-1000, 0)
EXAMPLES = '000028311_c1_1.jpg or 0002_c1s1_000451_03.jpg'
_NAME = re.compile(r'(?P<identity>-1|\d+|0000others)_c(?P<camera>\d+)(?!\d)')
_IDENTITY = re.compile(r'(-1|\d+|0000others)_')


class NameFault(ValueError):
    """Why a file name tells no identity and camera."""


def parse_name(name: str) -> tuple[int, int]:
    """Identity and camera of an image, from the last part of its path."""
    file_name = name.rpartition('/')[2]
    if found := _NAME.match(file_name):
        return _identity(found['identity']), int(found['camera'])
    if _IDENTITY.match(file_name):
        raise NameFault('names no camera')
    raise NameFault('names no identity')


def parse_names(names: Iterable[str], where: str) -> tuple[np.ndarray, np.ndarray]:
    """Identities and cameras of many images, each (N,).

    Raises:
        UserError: Some name is malformed; the message counts and shows them.
    """
    parsed, faults = [], []
    for name in names:
        try:
            parsed.append(parse_name(name))
        except NameFault as fault:
            faults.append(f'{name} {fault}')
    if faults:
        more = f' and {len(faults) - 3} more' if len(faults) > 3 else ''
        raise UserError(
            f'{len(faults)} file names in {where} are malformed ({", ".join(faults[:3])}{more}): '
            f'name them as in {EXAMPLES}.'
        )
    ids, cams = np.array(parsed, np.int32).reshape(-1, 2).T
    return ids, cams


def train_identities(names: Iterable[str]) -> set[int]:
    """The identities (in SYSU-30k: the bags) of training images that tell one.

    A folder with a number for a name tells the identity of all its images; elsewhere each file name
    does, as in Market-1501.
    """
    numbers: dict[str, int | None] = {}
    found = set()
    for name in names:
        folder, _, file_name = name.rpartition('/')
        if folder not in numbers:
            last = folder.rpartition('/')[2]
            numbers[folder] = int(last) if last.isdecimal() else None
        identity = numbers[folder]
        if identity is None and (match := _IDENTITY.match(file_name)):
            identity = _identity(match[1])
        found.add(identity)
    return found - {None, JUNK, *DISTRACTORS}


def _identity(text: str) -> int:
    return DISTRACTORS[0] if text == '0000others' else int(text)
