"""A file inside of an archive, and which names it may have."""

from typing import NamedTuple

MAX_NAME = 4096  # bytes of a path, as Linux has it

STORED, DEFLATED = 0, 1


class Entry(NamedTuple):
    """Where a file lies in an archive."""

    name: str
    offset: int  # of its first byte
    size: int  # of the file, in bytes
    packed: int  # bytes that it takes in the archive
    method: int = STORED


def check_name(name: str) -> str:
    """``name``, if it is a path that stays below its folder.

    Raises:
        ValueError: It does not, or is no name for a file.
    """
    if not name or len(name) > MAX_NAME:
        raise ValueError(f'it has a name of {len(name)} characters, 1 to {MAX_NAME} are allowed')
    if '\n' in name or '\r' in name or '\0' in name:
        raise ValueError(f'the name {name[:80]!r} has a line break or a zero character')
    if name.startswith('/') or ('..' in name and '..' in name.split('/')):
        raise ValueError(f'the name {name[:80]!r} leads out of the archive')
    return name
