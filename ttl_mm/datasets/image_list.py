"""Which images a run was started with, so that a resumed run knows what has changed since.

The list of names lies in the work dir, compressed; a checkpoint has its digest.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from ttl_mm.files.regular import NAMES, open_regular, size_of

SHOWN = 5  # names of removed images
MAX_NAME = 2**16  # bytes of a name
MAX_RATIO = 300  # by which names shrink at most; the longest paths reach 150


class Match(NamedTuple):
    """Where the images of an old list are in a new one."""

    new_index: np.ndarray  # (old,) of every old image in the new list, -1 where it is gone
    removed: list[str]  # names of the first few that are gone
    added: int  # number of images that only the new list has


def list_digest(names: Sequence[str]) -> str:
    """A short text that changes when a name or the order of names changes."""
    sha256 = hashlib.sha256()
    for name in names:
        sha256.update(os.fsencode(name) + b'\n')
    return sha256.hexdigest()[:16]


def list_path(folder: Path, digest: str) -> Path:
    """The file of the list with this digest."""
    return folder / f'images-{digest}.txt.gz'


def write_list(folder: Path, digest: str, names: Sequence[str]) -> Path:
    """Write the names, complete or not at all; nothing if they are there already."""
    path = list_path(folder, digest)
    if path.exists():
        return path
    partial = path.with_name(f'{path.name}.{uuid4().hex}.partial')
    try:
        with gzip.GzipFile(partial, 'wb', compresslevel=1, mtime=0) as file:
            for name in names:
                file.write(os.fsencode(name) + b'\n')
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def read_list(folder: Path, digest: str) -> list[str] | None:
    """The names with this digest; None if the file is missing or damaged."""
    try:
        names = list(_lines(list_path(folder, digest)))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return names if list_digest(names) == digest else None


def _lines(path: Path) -> Iterator[str]:
    """The names, one by one; ValueError where the file unpacks to more than names can."""
    with open_regular(path, NAMES) as packed, gzip.GzipFile(fileobj=packed) as file:
        left = MAX_RATIO * size_of(packed) + 2**20
        while line := file.readline(min(left, MAX_NAME) + 1):
            left -= len(line)
            if left < 0 or len(line) > MAX_NAME:
                raise ValueError(f'{path} unpacks to more than a list of names')
            yield os.fsdecode(line.rstrip(b'\n'))


def match_lists(old: Sequence[str], new: Sequence[str]) -> Match:
    """Find every image of the old list in the new one, by its name."""
    old_hashes, new_hashes = _hashes(old), _hashes(new)
    order = np.argsort(new_hashes, kind='stable')
    place = np.minimum(np.searchsorted(new_hashes[order], old_hashes), len(order) - 1)
    found = order[place]
    new_index = np.where(new_hashes[found] == old_hashes, found, -1)
    gone = np.flatnonzero(new_index < 0)
    removed = [old[int(i)] for i in gone[:SHOWN]]
    added = len(new) - len(np.unique(new_index[new_index >= 0]))
    return Match(new_index, removed, added)


def _hashes(names: Sequence[str]) -> np.ndarray:
    """(N,) of 64 bits; two of 30 million names share one with a chance of 1 in 40,000."""
    hashes = (hashlib.blake2b(os.fsencode(name), digest_size=8).digest() for name in names)
    return np.frombuffer(b''.join(hashes), np.uint64)
