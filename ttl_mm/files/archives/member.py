"""Read an image that is a file of its own, or lies in an archive."""

import os
import resource
from contextlib import suppress
from functools import cache, lru_cache

from ttl_mm.errors import UserError
from ttl_mm.files.archives.entry import DEFLATED, Entry
from ttl_mm.files.archives.index import (
    INSIDE,
    ArchiveIndex,
    archive_index,
    find_place,
    is_archive,
)
from ttl_mm.files.archives.zip import inflate
from ttl_mm.files.regular import NAMES, open_regular, read_bytes
from ttl_mm.files.stores.cache import is_remote, open_remote
from ttl_mm.files.stores.remote import replaced
from ttl_mm.files.stores.url import as_given

MOST_FILES = 2**15  # that a process asks the system to be allowed to open
_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
_FILES = max(_SOFT, min(MOST_FILES, _HARD if _HARD != resource.RLIM_INFINITY else MOST_FILES))
# in a process; each takes two files
OPEN_ARCHIVES = min(4096, max(32, _FILES // 8))
KNOWN_ARCHIVES = 2**17  # whose index was checked in this process, 1 kB each


class OpenArchive:
    """An archive that images are read from, until nobody has it any more.

    A shuffled epoch goes back and forth between more archives than can be open at once, so to open
    one again is quick: its index was checked before.
    """

    def __init__(self, path: str) -> None:
        _allow_files()
        self.index = known_index(path)
        if is_remote(self.index.content):  # it may be removed and fetched again meanwhile
            self.places = self.index.places
            return
        if self._open(known_index(path)):
            return
        known_index.cache_clear()
        if not self._open(known_index(path)):
            raise UserError(f'{path} was replaced while it was opened: start again.')

    def read(self, entry: Entry) -> bytes:
        """The bytes of a member as they lie in the archive; fewer if it was cut short."""
        if 'file' in self.__dict__:
            return os.pread(self.file.fileno(), entry.packed, entry.offset)
        with open_remote(self.index.content) as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (self.index.size, self.index.time):
                raise replaced(as_given(self.index.content))
            return os.pread(file.fileno(), entry.packed, entry.offset)

    def _open(self, index: ArchiveIndex) -> bool:
        """Whether archive and index are still there as they were when the index was checked."""
        self.file = open_regular(index.content, NAMES)
        status = os.fstat(self.file.fileno())
        if (status.st_size, status.st_mtime_ns) == (index.size, index.time):
            with suppress(OSError, ValueError):
                self.places = index.places
                return True
        self.file.close()
        return False

    def __del__(self) -> None:
        if 'file' in self.__dict__:
            self.file.close()


def read_image_file(path: str | os.PathLike, max_bytes: int) -> bytes:
    """The bytes of a file, also of one in an archive: ``shards/000.tar/cat.jpg``.

    Raises:
        OSError: It cannot be read, is no regular file, or is too large.
        ValueError: The path has a zero character, or the file is damaged in its archive.
        UserError: The archive cannot be used.
    """
    try:
        return read_bytes(path, max_bytes)
    except (NotADirectoryError, FileNotFoundError):  # the last if it is to be fetched
        archive, name = split_path(os.fspath(path))
        if not archive:
            raise
    return read_member(archive, name, max_bytes)


def image_file_size(path: str | os.PathLike) -> int:
    """The bytes of a file, also of one in an archive; OSError if there is none."""
    try:
        return os.stat(path).st_size
    except (NotADirectoryError, FileNotFoundError):  # the last if it is to be fetched
        archive, name = split_path(os.fspath(path))
        if not archive:
            raise
    return _find(archive, name).size


def split_path(path: str) -> tuple[str, str]:
    """The archive in a path and the name in it; both empty if there is none.

    ``shards/000.tar/cats/1.jpg`` has the archive ``shards/000.tar``, if that is a file.
    """
    for found in INSIDE.finditer(path):
        archive = path[: found.end() - 1]
        if is_archive(archive) and (os.path.isfile(archive) or is_remote(archive)):
            return archive, path[found.end() :]
    return '', ''


def read_member(archive: str, name: str, max_bytes: int) -> bytes:
    """The bytes of an image in an archive; raises as :func:`read_image_file`."""
    entry = _find(archive, name)
    if max(entry.size, entry.packed) > max_bytes:
        raise OSError(22, f'it has {entry.size} bytes, {max_bytes} are allowed', name)
    content = open_archive(archive).read(entry)
    if len(content) != entry.packed:
        raise OSError(5, f'{archive} was cut short while it was in use', name)
    return inflate(content, entry.size) if entry.method == DEFLATED else content


def _find(archive: str, name: str) -> Entry:
    try:
        return find_place(open_archive(archive).places, name)
    except KeyError:
        raise FileNotFoundError(2, f'{archive} has no such image', name) from None


@cache
def _allow_files() -> None:
    """Raise the number of files that this process may open, which its user may do, once."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FILES:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _HARD))


@lru_cache(KNOWN_ARCHIVES)
def known_index(path: str) -> ArchiveIndex:
    """The index of an archive; whether it is still the right one is for the caller to see."""
    return archive_index(path)


@lru_cache(OPEN_ARCHIVES)
def open_archive(path: str) -> OpenArchive:
    """An archive with its index; reading does not move a position, so processes may share it."""
    return OpenArchive(path)
