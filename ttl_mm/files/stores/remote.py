"""Ask a store through fsspec: what it holds, what an archive is, and its bytes.

A store that fails is asked again, after longer and longer pauses; what it sent is compared with the
length and the hashes that it gave. Messages hold no user name, password or query of an address.
"""

import base64
import binascii
import errno
import hashlib
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ttl_mm.errors import UserError
from ttl_mm.files.regular import NAMES, open_regular, read_bytes
from ttl_mm.files.stores.google import google_filesystem
from ttl_mm.files.stores.url import hide_secrets

T = TypeVar('T')
WAITS = (0.5, 1, 2, 4, 8, 16)  # seconds between two tries
SILENCE = 30.0  # seconds in which nothing comes, after which a try has failed
MIN_RATE = 10_000  # bytes per second, from the first minute on
ASKED_AT_ONCE = 16
DEPTH = 8  # folders below the one that is named
MOST_PAGES = 1000  # of a web server, which may show folders without end
CHUNK = 2**22
_LIBRARIES = {  # by scheme: what fsspec needs, and our extra that installs it
    's3': ('s3fs', 's3'),
    'gs': ('gcsfs', 'gcs'),
    'http': ('aiohttp', 'http'),
    'https': ('aiohttp', 'http'),
}
_MD5 = re.compile(r'"?([0-9a-f]{32})"?', re.IGNORECASE)
_HASHES = {'md5': 16, 'sha-256': 32, 'crc32c': 4}  # bytes
_CHANCE = random.SystemRandom()  # the global generator belongs to the run
_FINAL = (  # kinds of errors
    'NoCredentialsError', 'ProfileNotFound', 'DefaultCredentialsError', 'InvalidURL',
    'NonRetryableError',
)  # fmt: skip
_KEYS = ' (give keys where the library looks for them)'
_HINTS = {401: _KEYS, 403: _KEYS, 404: ' (check the address)'}  # by status
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class StoreError(UserError):
    """A store does not give what it should; the message tells which address and why."""


class NotThereError(StoreError):
    """A store has no such file, or does not give it to us; to ask again would change nothing."""


class RemoteFile(NamedTuple):
    """What a store says about an archive."""

    size: int
    tag: str  # changes with the content
    hashes: dict[str, str]  # of the content, by name, in hexadecimal digits

    @property
    def time(self) -> int:
        """A time in nanoseconds that stands for the content: whole seconds, for any file system."""
        digest = hashlib.sha256(f'{self.size} {self.tag}'.encode()).digest()
        return int.from_bytes(digest[:8], 'little') % 2**30 * 10**9


class _Lie(Exception):
    """The store sent something else than it said."""


def list_files(url: str) -> dict[str, dict[str, Any]]:
    """The addresses of all files below one, with what the listing says about each.

    Raises:
        StoreError: The store cannot be asked, or has no such place.
    """
    scheme = url.partition('://')[0]
    if scheme.startswith('http'):
        return _list_pages(url)
    system = filesystem(url)

    def ask() -> dict[str, dict[str, Any]]:
        system.invalidate_cache()
        return system.find(f'{url}/', detail=True, maxdepth=DEPTH)

    return {_full(scheme, name): about for name, about in _retried(url, ask).items()}


def _list_pages(url: str) -> dict[str, dict[str, Any]]:
    """The links of a web page and of the folders among them.

    fsspec's own search leaves out a folder whose page fails.
    """
    system, found, seen = filesystem(url), {}, set()
    pending = [(f'{url}/', 1)]
    while pending:
        page, depth = pending.pop()
        seen.add(page)
        if len(seen) > MOST_PAGES:
            raise StoreError(
                f'{hide_secrets(url)} shows more than {MOST_PAGES} folders: name one further down, '
                'or an address such as https://HOST/images-{000000..000099}.tar.'
            )
        for entry in _retried(page, partial(system.ls, page, detail=True)):
            name = entry['name']
            if entry['type'] != 'directory':
                found[name] = entry
            elif depth < DEPTH and name not in seen and len(name) > len(page):
                pending.append((name, depth + 1))
    return found


def _full(scheme: str, name: str) -> str:
    return name if '://' in name else f'{scheme}://{name}'


def describe(
    url: str, about: dict[str, Any] | None = None, pauses: Sequence[float] | None = None
) -> RemoteFile:
    """What the store says about an archive; ``about`` if a listing has said it already.

    Raises:
        StoreError: The store cannot be asked, or does not tell the length.
    """
    if not about or not about.get('size'):
        system = filesystem(url)

        def ask() -> dict[str, Any]:
            system.invalidate_cache()
            return system.info(url)

        about = _retried(url, ask, pauses)
    size = about.get('size')
    if size == 0:
        raise StoreError(f'{hide_secrets(url)} is empty: put it into the store again.')
    if not isinstance(size, int) or size < 0:
        raise StoreError(
            f'{hide_secrets(url)}: the store tells no length of it ({size}), so what it sends '
            'cannot be checked. Serve it with a Content-Length, or copy it to this machine.'
        )
    # one of them: a listing and the file itself may give times of another precision; the etag of
    # Google changes with the storage class, too, the generation with the content alone
    keys = ('generation', 'ETag', 'etag', 'LastModified', 'Last-Modified', 'mtime')
    tag = next((str(about[key]) for key in keys if about.get(key)), '')
    return RemoteFile(size, tag, _hashes(about))


def describe_all(files: dict[str, dict[str, Any] | None]) -> list[RemoteFile]:
    """:func:`describe` of many addresses, several at once."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(describe, files, files.values()))


def _hashes(about: dict[str, Any]) -> dict[str, str]:
    """The hashes of the content among what a store says.

    The ETag of S3 is the MD5 sum of the content, unless it came in parts or is encrypted by a key
    of a key service. Servers whose ETag looks the same and is none: ``TTL_STORE_ETAG=ignore``.
    """
    found: dict[str, str] = {}
    tag = _MD5.fullmatch(str(about.get('ETag') or ''))
    encrypted = 'kms' in str(about.get('ServerSideEncryption') or '').lower()
    if tag and not encrypted and os.environ.get('TTL_STORE_ETAG') != 'ignore':
        found['md5'] = tag[1].lower()
    given: list[tuple[str, Any]] = [('md5', about.get(key)) for key in ('md5Hash', 'Content-MD5')]
    given.append(('crc32c', about.get('crc32c')))  # Google's, also of objects put together of parts
    for item in str(about.get('Digest') or '').split(','):
        name, _, value = item.strip().partition('=')
        given.append((name.lower(), value))
    for name, value in given:
        if name in _HASHES and value:
            try:
                digest = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError, TypeError):
                continue
            if len(digest) == _HASHES[name]:
                found[name] = digest.hex()
    return found


def download(
    url: str, expected: RemoteFile, target: Path, known: str | None, patient: bool = True
) -> str:
    """Write an archive into the file ``target``; returns the SHA-256 of its content.

    Args:
        url: Its address.
        expected: What the store said about it before.
        target: A file that nobody reads yet.
        known: The SHA-256 of the content when it was fetched before, if it was.
        patient: Whether it is tried again.

    Raises:
        StoreError: It is not what was expected, also when it is asked for again and again.
    """
    system, pauses = filesystem(url), None if patient else ()

    def fetch() -> str:
        now = describe(url, pauses=pauses)
        if (now.size, now.tag) != (expected.size, expected.tag):
            raise replaced(url)
        system.get_file(url, str(target), callback=_watch(expected.size))
        return _check(target, expected, known)

    return _retried(url, fetch, pauses)


def read_small(url: str, most: int) -> bytes | None:
    """The content of a file of up to ``most`` bytes; None if there is none.

    Raises:
        StoreError: The store fails, or sends something else than it said.
    """
    try:
        about = describe(url)
    except NotThereError:
        return None
    if about.size > most:
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / 'content'
        target.touch()
        download(url, about, target, None)
        return read_bytes(target, most)


def replaced(url: str) -> StoreError:
    """The error that an archive is no longer the one whose images were listed."""
    return StoreError(
        f'{hide_secrets(url)} was replaced in the store since the run began, so images of two '
        'versions would be mixed: start again.'
    )


def _check(target: Path, expected: RemoteFile, known: str | None) -> str:
    """The SHA-256 of a file; _Lie if its length or one of the hashes is another one."""
    wanted = [*expected.hashes.items(), *([('sha-256', known)] if known else [])]
    sums = {name: made for name in ('sha-256', *expected.hashes) if (made := _sum(name))}
    length = 0
    with open_regular(target, NAMES) as file:
        while chunk := file.read(CHUNK):
            length += len(chunk)
            for one in sums.values():
                one.update(chunk)
        os.fsync(file.fileno())
    if length != expected.size:
        raise _Lie(f'{length} bytes came, {expected.size} were announced')
    for name, value in wanted:
        if name in sums and sums[name].digest().hex() != value:
            raise _Lie(f'the {name.upper()} sum of what came is not {value}')
    return sums['sha-256'].digest().hex()


def _sum(name: str) -> Any:
    """What computes a hash; None if nothing here does so quickly."""
    if name == 'crc32c':
        if not find_spec('google_crc32c'):  # comes with gcsfs
            return None
        import google_crc32c

        return google_crc32c.Checksum() if google_crc32c.implementation == 'c' else None
    if name == 'md5':
        return hashlib.md5(usedforsecurity=False)
    return hashlib.sha256() if name == 'sha-256' else None


def _watch(size: int) -> Any:
    """A callback of fsspec that ends a transfer which is too long or hardly moves."""
    from fsspec.callbacks import Callback

    class Watch(Callback):
        begun = time.monotonic()
        came = 0

        def relative_update(self, inc: int = 1) -> None:
            self.came += inc
            seconds = time.monotonic() - self.begun
            if self.came > size:
                raise _Lie(f'more than the {size} bytes came that were announced')
            if seconds > 60 and self.came < MIN_RATE * seconds and self.came < size:
                raise _Lie(f'only {self.came / seconds:.0f} bytes a second come')

        def absolute_update(self, value: int) -> None:
            self.relative_update(value - self.came)

    return Watch()


def filesystem(url: str) -> Any:
    """The file system of fsspec for an address; keys come from where its library looks for them.

    Raises:
        UserError: The library is not installed.
    """
    scheme = url.partition('://')[0]
    library, extra = _LIBRARIES[scheme]
    for name in ('fsspec', library):
        if not find_spec(name):
            raise UserError(
                f'{scheme}:// needs {name}: install it with `pip install "ttl-mm[{extra}]"`.'
            )
    import fsspec

    if scheme == 's3':
        return fsspec.filesystem(scheme, use_listings_cache=False)
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
    if scheme == 'gs':
        return google_filesystem(timeout)
    return fsspec.filesystem(
        scheme,
        client_kwargs={'trust_env': True, 'timeout': timeout},  # ~/.netrc, HTTPS_PROXY
        headers={'Accept-Encoding': 'identity'},
    )


def _retried(url: str, ask: Callable[[], T], pauses: Sequence[float] | None = None) -> T:
    """What ``ask`` returns; errors that may pass are waited for."""
    begun, tries, waits = time.monotonic(), 0, iter(WAITS if pauses is None else pauses)
    while True:
        tries += 1
        try:
            return ask()
        except UserError:
            raise
        except Exception as error:
            wait, reason = next(waits, None), _reason(error)
            if _is_final(error):
                raise NotThereError(f'{hide_secrets(url)}: {reason}.') from None
            if wait is None:
                raise StoreError(
                    f'{hide_secrets(url)}: {reason}; {tries} tries in '
                    f'{time.monotonic() - begun:.0f} s. Check the store and the network, then '
                    'start again.'
                ) from None
            time.sleep(wait * _CHANCE.uniform(0.75, 1.25))  # not all machines at once


def _cause(error: BaseException) -> BaseException:
    """Of an error of fsspec, what it was made of: HTTP's says 'not found' for anything."""
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _status(error: BaseException) -> int | None:
    """What the store has answered, as a status of HTTP."""
    name = 'status' if hasattr(error, 'status') else 'code'  # of aiohttp, of gcsfs
    value = str(getattr(error, name, ''))
    if value.isdecimal() and 400 <= int(value) < 600:
        return int(value)
    text, kind = str(error), type(error)  # errors of gcsfs that are of no kind of their own
    if kind is OSError and text.startswith('Forbidden: '):
        return 403
    if kind is ValueError and text.startswith('Bad Request: '):
        return 400
    return 502 if kind.__name__ == 'ProxyError' and not text else None


def _is_final(error: BaseException) -> bool:
    """Whether to ask again would change nothing."""
    error = _cause(error)
    status = _status(error)
    if status is not None:
        passes = getattr(error.__cause__, 'retryable', False)  # Google's, where keys are renewed
        return status < 500 and status not in (408, 425, 429) and not passes
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, (FileNotFoundError, PermissionError)) or not kinds.isdisjoint(_FINAL)


def _reason(error: BaseException) -> str:
    """Why, in words without secrets."""
    error = _cause(error)
    status = _status(error)
    if status is not None:
        message = getattr(error, 'message', '') or str(error).partition('\n')[2]
        message = ' '.join(str(message).removesuffix(f', {status}').split())[:300]
        hint = _HINTS.get(status, '')
        return hide_secrets(f'the store answers {status} {message}').strip(' .') + hint
    if isinstance(error, FileNotFoundError):
        return f'the store has no such place{_HINTS[404]}'
    if isinstance(error, PermissionError):
        return f'you may not read it{_HINTS[403]}'
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return (
            f'{error.strerror} for the cache: free some space, or set TTL_STORE_CACHE to a folder '
            'on another disk'
        )
    if isinstance(error, TimeoutError) or 'Timeout' in type(error).__name__:
        return f'nothing came for {SILENCE:.0f} s'
    text = ' '.join(hide_secrets(str(error)).split())[:300]
    return text if isinstance(error, _Lie) else f'{type(error).__name__} {text}'.strip()
