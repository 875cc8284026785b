"""Open a file that is a file: not a pipe, not a device, and not larger than its kind may be.

A named pipe in the place of an image would stop a run for ever, and a link to ``/dev/zero`` would
fill the memory. So a file is opened without waiting and looked at before its first byte is read.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from ttl_mm.errors import UserError

# the largest file of each kind, in bytes
WEIGHTS = 2**36
FEATURES = 2**42
NAMES = 2**40  # a list of file names, which stays on disk
ANNOTATIONS = 2**31  # all objects of LVIS take half of it
LOG = 2**30
TEXT = 2**24  # a manifest, a config, results, the boxes of one image

_KINDS = {
    stat.S_IFDIR: 'a folder',
    stat.S_IFIFO: 'a named pipe',
    stat.S_IFSOCK: 'a socket',
    stat.S_IFCHR: 'a device',
    stat.S_IFBLK: 'a device',
}
# O_NONBLOCK: to open a pipe that nobody writes to would wait for ever
_FLAGS = sum(getattr(os, name, 0) for name in ('O_NONBLOCK', 'O_NOCTTY', 'O_CLOEXEC', 'O_BINARY'))


class NotTextError(UserError, ValueError):
    """A file that should be text is not."""


def open_regular(path: str | os.PathLike, max_bytes: int) -> BinaryIO:
    """Open a regular file of at most ``max_bytes`` for reading; links are followed.

    Raises:
        OSError: It cannot be opened, is no regular file, or is too large; ``strerror`` says which.
    """
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), 'something else')
            raise OSError(errno.EINVAL, f'it is {kind}, not a file', os.fspath(path))
        if status.st_size > max_bytes:
            found = f'it has {status.st_size} bytes, {max_bytes} are allowed'
            raise OSError(errno.EINVAL, found, os.fspath(path))
        return os.fdopen(handle, 'rb')
    except BaseException:
        os.close(handle)
        raise


def size_of(file: BinaryIO) -> int:
    """The bytes that an open file has now."""
    return os.fstat(file.fileno()).st_size


def read_bytes(path: str | os.PathLike, max_bytes: int = TEXT) -> bytes:
    """The content of a regular file; raises what :func:`open_regular` raises."""
    with open_regular(path, max_bytes) as file:
        return file.read(size_of(file))  # and not what is appended meanwhile


def read_text(path: str | os.PathLike, max_bytes: int = TEXT, errors: str = 'strict') -> str:
    """The UTF-8 text of a regular file, without the line ends of Windows and a byte-order mark.

    Raises:
        OSError: As :func:`open_regular`.
        NotTextError: It is not UTF-8.
    """
    try:
        text = read_bytes(path, max_bytes).decode('utf-8-sig', errors)
    except UnicodeDecodeError as error:
        raise NotTextError(f'{path} is no text in UTF-8 ({error}): save it as UTF-8.') from None
    return text.replace('\r\n', '\n').replace('\r', '\n')


def read_system(path: str) -> str:
    """What the kernel tells in a file below ``/proc`` or ``/sys``, whose size it does not say.

    Raises:
        OSError: There is no such file here.
    """
    with open_regular(path, TEXT) as file:
        return file.read(TEXT).decode()


def is_regular(path: str | os.PathLike) -> bool:
    """Whether a regular file is at the end of all links; False if that cannot be found out."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a link to itself, a name that is too long or has a NUL
        return False
