"""Addresses of archives, and their places in the cache."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

from ttl_mm.errors import UserError
from ttl_mm.files.archives.entry import check_name
from ttl_mm.files.cache_folder import cache_folder, own_folder

SCHEMES = ('s3', 'gs', 'http', 'https')
MOST_SHARDS = 10**6  # that an address with {000..999} may stand for
LONGEST_NAME = 200  # bytes; of the 255 of file systems the cache adds some for its own files
_URL = re.compile(rf'({"|".join(SCHEMES)}|gcs)://', re.IGNORECASE)
_IN_TEXT = re.compile(
    r'(\b[a-z][a-z0-9+.-]*://)(?:[^/\s@\'"]*@)?([^\s\'"?#]*)([?#][^\s\'"]*)?', re.I
)
_RANGE = re.compile(r'\{(\d{1,9})\.\.(\d{1,9})\}')


def is_url(source: str | os.PathLike) -> bool:
    """Whether this is an address in a store, not a path."""
    return isinstance(source, str) and bool(_URL.match(source))


def hide_secrets(text: str) -> str:
    """The text without user names, passwords and queries, which may be keys, in its addresses.

    Example:
        >>> hide_secrets('GET https://me:pw@host/a.tar?sig=12 failed')
        'GET https://host/a.tar?... failed'
    """
    return _IN_TEXT.sub(lambda m: m[1] + m[2] + ('?...' if m[3] else ''), text)


def clean_url(url: str) -> str:
    """The address in its one spelling, without a slash at the end.

    Raises:
        UserError: It holds a user name, a password or a query, which may be a key, and would get
            into logs, configs and checkpoints; or it names no place.
    """
    shown = hide_secrets(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:  # a host in brackets that is no address
        raise UserError(f'{shown} is no address: {error}.') from None
    if '@' in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f'{shown}: an address of images must hold no user name, password or query, since it '
            'gets into logs and checkpoints. Give keys where the library looks for them: '
            '~/.netrc for https, ~/.aws or AWS_... for s3, gcloud for gs.'
        )
    scheme = parts.scheme.lower().replace('gcs', 'gs')
    host = parts.netloc.lower() if scheme.startswith('http') else parts.netloc
    path = [part for part in parts.path.split('/') if part]
    if not host or host.startswith('.') or any(part in ('.', '..') for part in path):
        raise UserError(f'{shown} is no address of images: write it as s3://BUCKET/FOLDER.')
    return f'{scheme}://{"/".join([host, *path])}'


def expand_ranges(url: str) -> Iterator[str]:
    """``x-{08..10}.tar`` stands for ``x-08.tar``, ``x-09.tar`` and ``x-10.tar``.

    Raises:
        UserError: It stands for too many.
    """
    texts = _RANGE.split(url)
    fixed, ranges, total = texts[::3], [], 1
    for first, last in zip(texts[1::3], texts[2::3]):
        numbers = range(int(first), int(last) + 1)
        ranges.append([f'{number:0{len(first)}}' for number in numbers[: MOST_SHARDS + 1]])
        total *= len(numbers)
    if not 0 < total <= MOST_SHARDS:
        raise UserError(f'{url} stands for {total} archives: 1 to {MOST_SHARDS} are allowed.')
    for numbers_ in product(*ranges):
        yield ''.join(a + b for a, b in zip(fixed, (*numbers_, '')))


def has_ranges(url: str) -> bool:
    """Whether an address stands for several, such as ``{000..127}``."""
    return bool(_RANGE.search(url))


def store_root() -> Path:
    """The folder of the cache: ``TTL_STORE_CACHE``, or one in the user's cache."""
    return _root(*map(os.environ.get, ('TTL_STORE_CACHE', 'XDG_CACHE_HOME', 'HOME')))


@lru_cache(8)
def _root(given: str | None, *_: str | None) -> Path:
    return (own_folder(Path(given)) if given else cache_folder('stores')).resolve()


def place_of(url: str) -> Path:
    """Where the file or folder of a clean address lies in the cache."""
    scheme, _, rest = url.partition('://')
    longest = max(len(part.encode(errors='replace')) for part in rest.split('/'))
    if longest > LONGEST_NAME:
        raise UserError(
            f'{hide_secrets(url)[:200]} cannot be used: a name of {longest} bytes is too long for '
            f'the cache, which takes up to {LONGEST_NAME}. Rename it in the store.'
        )
    try:
        return store_root() / scheme / check_name(rest)
    except ValueError as error:
        raise UserError(f'{hide_secrets(url)[:200]} cannot be used: {error}.') from None


def url_of(path: str | os.PathLike) -> str | None:
    """The address of a place in the cache; None for any other path."""
    path = Path(path)
    root = store_root()
    if not path.is_relative_to(root):
        path = path.absolute()
        if not path.is_relative_to(root):
            return None
    parts = path.relative_to(root).parts
    return f'{parts[0]}://{"/".join(parts[1:])}' if len(parts) > 1 else None


def as_given(path: str | os.PathLike) -> str:
    """The address of a place in the cache, which a config can name on any machine; or the path."""
    return url_of(path) or os.fspath(path)
