"""Transfer one file from one address into a partial file; every failure has its own message."""

import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ttl_mm.files.regular import WEIGHTS, open_regular

Report = Callable[[int, int | None], None]  # bytes done, bytes in all if known

CHUNK = 1 << 18
MIN_RATE = 1024  # bytes per second, averaged over one timeout
MAX_UNKNOWN = 4 << 30  # bytes accepted from a server when the size is unknown
MAX_REDIRECTS = 5


class TransferError(Exception):
    """The cause, ready to be printed; ``temporary`` if another attempt may get further."""

    def __init__(self, cause: str, temporary: bool = False):
        super().__init__(cause)
        self.temporary = temporary


def transfer(
    url: str,
    part: Path,
    size: int | None,
    timeout: float,
    redirect_hosts: Collection[str] = (),
    report: Report = lambda done, total: None,
) -> None:
    """Complete ``part``, continuing after the bytes it already holds.

    Raises:
        TransferError: The file is not complete. ``part`` never holds more than ``size`` bytes.
    """
    try:
        have = part.stat().st_size if part.exists() else 0
        if size is None or have > size:
            have = 0
        if have == size:
            return
        with _open(url, have, timeout, redirect_hosts) as source:
            start, total = _start_and_total(source, have)
            _refuse_page(source, total, size)
            _check_length(total, size, part.parent)
            _copy(source, part, start, size or total, timeout, report)
    except TransferError:
        raise
    except urllib.error.HTTPError as error:
        raise TransferError(f'the server answered {error.code} {error.reason}') from error
    except TimeoutError as error:
        raise TransferError(f'nothing came for {timeout:g} s', temporary=True) from error
    except urllib.error.URLError as error:
        stalled = isinstance(error.reason, TimeoutError)
        cause = f'no answer for {timeout:g} s' if stalled else f'no connection ({error.reason})'
        raise TransferError(cause, temporary=True) from error
    except http.client.HTTPException as error:
        cause = f'the answer is broken ({type(error).__name__})'
        raise TransferError(cause, temporary=True) from error
    except OSError as error:
        raise TransferError(f'{error.strerror or error}', temporary=True) from error


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to the same host, or to one that the manifest names."""

    max_redirections = MAX_REDIRECTS

    def __init__(self, hosts: Collection[str]):
        self.hosts = hosts

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme != 'https' and (old.scheme, new.scheme) != ('http', 'http'):
            raise TransferError(f'it redirects from {old.scheme} to {new.scheme or "nowhere"}')
        if new.netloc != old.netloc and new.hostname not in self.hosts:
            raise TransferError(f'it redirects to another host, {new.netloc}')
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, have: int, timeout: float, hosts: Collection[str]) -> Any:
    if urlsplit(url).scheme == 'file':
        path = urllib.request.url2pathname(urlsplit(url).path)
        source = open_regular(path, WEIGHTS)  # the caller closes it
        source.seek(have)
        return source
    headers = {'User-Agent': 'ttl_mm', 'Accept-Encoding': 'identity'}
    if have:
        headers['Range'] = f'bytes={have}-'
    opener = urllib.request.build_opener(_SameHost(hosts))
    return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)


def _start_and_total(source: Any, have: int) -> tuple[int, int | None]:
    """Where the bytes of this answer begin, and the length of the whole file if it is known."""
    headers = getattr(source, 'headers', None)
    if headers is None:  # a local file
        return have, os.fstat(source.fileno()).st_size
    length = source.length
    if source.status != 206:  # the server sends it all, whatever was asked for
        return 0, length
    if not headers.get('Content-Range', '').startswith(f'bytes {have}-'):
        raise TransferError(f'it continues at {headers.get("Content-Range")!r}, not byte {have}')
    return have, None if length is None else have + length


def _refuse_page(source: Any, total: int | None, size: int | None) -> None:
    """Refuse a page to sign in or to confirm a download; some servers call every file a page."""
    headers = getattr(source, 'headers', None)
    page = headers is not None and headers.get_content_type() == 'text/html'
    if page and (size is None or total != size):
        raise TransferError('it is a web page, not a checkpoint')


def _check_length(total: int | None, size: int | None, folder: Path) -> None:
    if size is not None and total is not None and total != size:
        raise TransferError(f'it has {total} bytes instead of {size}')
    if total is not None and size is None and total > MAX_UNKNOWN:
        raise TransferError(f'it has {total} bytes; {MAX_UNKNOWN} are allowed if no size is known')
    free = shutil.disk_usage(folder).free
    if (size or total or 0) > free:
        raise TransferError(f'{folder} has {free} bytes free, {size or total} are needed')


def _copy(
    source: Any, part: Path, start: int, total: int | None, timeout: float, report: Report
) -> None:
    """Append to ``part`` from byte ``start`` until the source ends, stalls or sends too much."""
    done, limit = start, total or MAX_UNKNOWN
    window_end, window_bytes = time.monotonic() + timeout, 0
    with part.open('r+b' if start else 'wb') as target:
        target.seek(start)
        while data := source.read1(CHUNK):  # what has arrived, so that a trickle is noticed
            done += len(data)
            if done > limit:
                target.truncate(0)
                raise TransferError(f'it sends more than {limit} bytes')
            target.write(data)
            report(done, total)
            window_bytes += len(data)
            if time.monotonic() > window_end:
                if window_bytes < MIN_RATE * timeout:
                    cause = f'only {window_bytes} bytes came in {timeout:g} s'
                    raise TransferError(cause, temporary=True)
                window_end, window_bytes = time.monotonic() + timeout, 0
        target.flush()
        os.fsync(target.fileno())
    if total is not None and done < total:
        raise TransferError(f'it ended after {done} of {total} bytes', temporary=True)
