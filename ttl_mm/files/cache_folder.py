"""A folder for what can be made again, which belongs to this user alone."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ttl_mm.errors import UserError


def cache_folder(kind: str) -> Path:
    """The folder for ``kind`` in the user's cache; without a home, one of this machine.

    Raises:
        UserError: It belongs to somebody else.
    """
    base = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    folder = base / 'ttl_mm' / kind
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(folder, os.W_OK) and _is_private(folder):
        return folder
    # a read-only home, or a folder of somebody else: every machine has its own cache
    folder = Path(tempfile.gettempdir()) / f'ttl_mm-{kind}-{os.getuid()}'
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or not _is_private(folder):
        raise UserError(
            f'{folder} belongs to somebody else, who could choose the images of this run: set '
            'XDG_CACHE_HOME to a folder of your own.'
        )
    return folder


def own_folder(folder: Path) -> Path:
    """A folder that somebody chose for a cache, made if need be.

    Raises:
        UserError: It cannot be made, or belongs to somebody else.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f'{folder} cannot be a cache: {error.strerror}.') from None
    if not _is_private(folder):
        raise UserError(f'{folder} cannot be a cache: it is no folder of your own.')
    return folder


def _is_private(folder: Path) -> bool:
    """Whether this is a folder of ours; if others could write to it, they cannot from now on."""
    try:
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            folder.chmod(0o700)
    except OSError:
        return False
    return True
