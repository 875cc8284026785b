"""The archives that an address stands for."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttl_mm.errors import UserError
from ttl_mm.files.stores.cache import locked, noted_at, remember
from ttl_mm.files.stores.remote import StoreError, describe_all, list_files
from ttl_mm.files.stores.url import (
    clean_url,
    expand_ranges,
    has_ranges,
    hide_secrets,
    place_of,
    url_of,
)

FRESH = 60.0  # seconds in which the store is not asked again
ENDINGS = ('.tar', '.zip')
FOLDERS = (*ENDINGS, '.parquet')  # whose names are those of archives
MOST_NAMED = 3


def local_root(source: str) -> Path:
    """The place in the cache of an address, of a folder or of one archive.

    That of an address with {000..999} is its folder.
    """
    url = clean_url(source)
    return place_of(url.rpartition('/')[0] if has_ranges(url) else url)


def remote_archives(source: str) -> list[Path]:
    """The places in the cache of all archives that an address stands for, in order.

    The store is asked what it holds now, unless another process did so a moment ago.

    Raises:
        UserError: There are none, or the store cannot be asked.
    """
    url = clean_url(source)
    with locked(place_of(url.partition('://')[0] + '://' + url.split('/')[2]) / '.lock'):
        if has_ranges(url) or url.lower().endswith(ENDINGS):
            found: dict[str, dict[str, Any] | None] = dict.fromkeys(expand_ranges(url))
        else:
            found = _below(url)
        return _ask_about(found)


def refresh(archives: Sequence[Path]) -> None:
    """Ask the store about archives that a list names, unless that was done a moment ago."""
    urls: dict[str, dict[str, Any] | None] = {
        url: None for path in archives if (url := url_of(path)) is not None
    }
    if urls:
        with locked(archives[0].parent / '.lock'):
            _ask_about(urls)


def _ask_about(files: dict[str, dict[str, Any] | None]) -> list[Path]:
    for url in sorted(files):  # the first, the same every time, is named
        if any(folder.lower().endswith(FOLDERS) for folder in url.split('/')[2:-1]):
            raise StoreError(
                f'{url} lies in a folder whose name ends like that of an archive: rename that.'
            )
    paths = {url: place_of(url) for url in files}
    old = time.time() - FRESH
    new = {url: about for url, about in files.items() if about or noted_at(paths[url]) < old}
    for url, found in zip(new, describe_all(new)):
        remember(paths[url], found)
    return [paths[url] for url in sorted(paths)]


def _below(url: str) -> dict[str, dict[str, Any] | None]:
    """The archives below a folder, with what the listing says about them."""
    found: dict[str, dict[str, Any] | None] = {}
    others = []
    listed = list_files(url)
    for given, about in ((name, listed[name]) for name in sorted(listed)):
        if any(part.startswith('.') for part in given.removeprefix(f'{url}/').split('/')):
            continue
        try:
            name = clean_url(given)
        except UserError:  # of a web page: a link with a query, such as those that sort a folder
            name = ''
        is_web = url.startswith('http')
        if name != given and not is_web and given.lower().endswith(ENDINGS):
            raise StoreError(
                f'{given[:200]!r} has a name that no address can have, and would be left out: '
                'name it without ?, # and //.'
            )
        if not name.startswith(f'{url}/'):
            continue
        if name.lower().endswith(ENDINGS):
            found[name] = about if about.get('size') else None
        else:
            others.append(os.path.basename(name))
    if not found:
        seen = f' (found: {", ".join(sorted(others)[:MOST_NAMED])})' if others else ''
        raise StoreError(
            f'{hide_secrets(url)} has no archives{seen}: name a folder with files ending in '
            f'{" ".join(ENDINGS)}, written by `ttl shard`; a web server that shows no folders '
            'needs an address such as https://HOST/images-{000000..000099}.tar.'
        )
    return found
