"""Archives of stores as files of this machine: fetched when they are read, removed by age.

Beside an archive ``x.tar`` lie ``.x.tar.json``, what the store said about it, ``.x.tar.sha256``,
the hash of its content when it was fetched first, and ``.x.tar.lock``, locked by the process that
fetches it. An archive has the length and the time of :class:`RemoteFile`, or it is an old one. Who
reads it holds a shared lock on the file itself, so it is not removed meanwhile.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

from ttl_mm.errors import UserError
from ttl_mm.files.byte_size import parse_bytes
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import NAMES, open_regular
from ttl_mm.files.stores.remote import RemoteFile, StoreError, describe, download
from ttl_mm.files.stores.url import store_root, url_of

DEFAULT_BOUND = '50GB'
PATIENCE = 600.0  # seconds to wait for space that other processes hold
_PARTIAL = '.partial'


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path is a place of the cache, where a store has the file."""
    root = str(store_root())
    return os.fspath(path).startswith(root + os.sep)


def cache_bound() -> int:
    """Bytes that the cache may take: ``TTL_STORE_CACHE_SIZE``."""
    text = os.environ.get('TTL_STORE_CACHE_SIZE') or DEFAULT_BOUND
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise UserError(f'TTL_STORE_CACHE_SIZE: {error}.') from None


def remote_file(path: Path) -> RemoteFile:
    """What the store said about the archive at a place of the cache; it is asked if it never was.

    Raises:
        StoreError: The store cannot be asked.
    """
    with suppress(OSError, ValueError, TypeError):
        found = RemoteFile(**read_json(_beside(path, 'json')))
        kinds = [type(value) for value in found]
        if kinds == [int, str, dict] and all(type(v) is str for v in found.hashes.values()):
            return found
    url = url_of(path)
    if url is None:
        raise StoreError(f'{path} is no place of the cache {store_root()}.')
    found = describe(url)
    remember(path, found)
    return found


def remember(path: Path, found: RemoteFile) -> None:
    """Note what the store says about an archive."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(_beside(path, 'json'), json.dumps(found._asdict()))


def open_remote(path: Path, patient: bool = True) -> BinaryIO:
    """The archive at a place of the cache, fetched first if it is not there.

    It is locked against removal until the file is closed. Who is not patient tries once, and does
    not wait for room.

    Raises:
        StoreError: The store does not give it, or it does not fit into the cache.
    """
    wanted = remote_file(path)
    return _open_current(path, wanted) or _fetch(path, wanted, patient)


def is_cached(path: Path) -> bool:
    """Whether the archive is there; then it also becomes the youngest."""
    file = _open_current(path, remote_file(path))
    if file is not None:
        file.close()
    return file is not None


def _open_current(path: Path, wanted: RemoteFile) -> BinaryIO | None:
    try:
        file = open_regular(path, NAMES)
    except FileNotFoundError:
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    status = os.fstat(file.fileno())
    if (status.st_size, status.st_mtime_ns) != (wanted.size, wanted.time):
        file.close()
        return None
    now = time.time_ns()
    if now - status.st_atime_ns > 10**9:  # when it was used last
        os.utime(file.fileno(), ns=(now, status.st_mtime_ns))
    return file


def _fetch(path: Path, wanted: RemoteFile, patient: bool) -> BinaryIO:
    url = url_of(path)
    assert url is not None
    with locked(_beside(path, 'lock')):
        if (file := _open_current(path, wanted)) is not None:  # another process has fetched it
            return file
        partial = _partial(path, wanted.size)
        try:
            _make_room(partial, wanted.size, PATIENCE if patient else 0)
            known = _known_hash(path, wanted)
            try:
                sha256 = download(url, wanted, partial, known, patient)
            except StoreError:
                if patient:  # it may have been replaced: the next start asks again
                    _beside(path, 'json').unlink(missing_ok=True)
                raise
            if known is None:
                text = json.dumps({'time': wanted.time, 'sha256': sha256})
                _write(_beside(path, 'sha256'), text)
            file = open_regular(partial, NAMES)
            fcntl.flock(file, fcntl.LOCK_SH)
            os.utime(partial, ns=(time.time_ns(), wanted.time))
            os.replace(partial, path)
            return file
        finally:
            partial.unlink(missing_ok=True)


def _known_hash(path: Path, wanted: RemoteFile) -> str | None:
    try:
        noted = read_json(_beside(path, 'sha256'))
        return str(noted['sha256']) if noted['time'] == wanted.time else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


class _Kept(NamedTuple):
    path: Path
    size: int
    used: int  # time of the last use


def _make_room(partial: Path, size: int, patience: float) -> None:
    """Reserve ``size`` bytes for a file that is about to be fetched, and make the file."""
    bound, deadline = cache_bound(), time.monotonic() + patience
    if size > bound:
        raise StoreError(
            f'{url_of(partial.parent)} has an archive of {size:,} bytes, and the cache may take '
            f'{bound:,}: set TTL_STORE_CACHE_SIZE to more, or write smaller shards.'
        )
    while True:
        with locked(store_root() / '.lock'):
            if _evict(bound - size):
                partial.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                partial.touch(mode=0o600)
                return
        if time.monotonic() > deadline:
            raise StoreError(
                f'the cache {store_root()} of {bound:,} bytes is full of archives that other '
                'processes fetch or read: set TTL_STORE_CACHE_SIZE to more.'
            )
        time.sleep(0.1)


def _evict(bound: int) -> bool:
    """Remove the archives that were not used for the longest time; whether ``bound`` is kept."""
    kept = sorted(_kept_files(), key=lambda file: file.used)
    total = sum(file.size for file in kept)
    for file in kept:
        if total <= bound:
            break
        if _remove(file.path):
            total -= file.size
    return total <= bound


def _kept_files() -> Iterator[_Kept]:
    """All archives of the cache, and those that are being fetched, with their later size."""
    for folder, _, names in os.walk(store_root()):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError, ValueError):
                if name.endswith(_PARTIAL):
                    if _is_abandoned(path):
                        path.unlink()
                    else:
                        yield _Kept(path, int(name.split('.')[-2]), 2**63)
                elif not name.startswith('.'):
                    status = path.stat()
                    yield _Kept(path, status.st_size, status.st_atime_ns)


def _is_abandoned(partial: Path) -> bool:
    """Whether nobody writes it any more."""
    archive = partial.with_name(partial.name[1:].rsplit('.', 2)[0])
    with open_regular(_beside(archive, 'lock'), NAMES) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _remove(path: Path) -> bool:
    """Remove an archive unless somebody reads it."""
    if path.name.endswith(_PARTIAL):
        return False
    try:
        with open_regular(path, NAMES) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if need be and stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f'.{path.name}.{kind}')


def _partial(path: Path, size: int) -> Path:
    return path.with_name(f'.{path.name}.{size}{_PARTIAL}')


def noted_at(path: Path) -> float:
    """When the store was asked about an archive last, as :func:`time.time`; 0 if never."""
    try:
        return _beside(path, 'json').stat().st_mtime
    except OSError:
        return 0.0


def _write(target: Path, text: str) -> None:
    """A file that appears complete or not at all."""
    partial = target.with_name(f'{target.name}.{uuid4().hex}.new')
    try:
        with partial.open('x') as file:
            file.write(text)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
