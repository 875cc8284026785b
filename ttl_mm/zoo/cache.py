"""The folder of checked files: only what matches the manifest gets into it.

A transfer goes into ``partial/`` and is moved into the folder only when size and SHA-256 are
right. A lock per file lets any number of processes ask at once: one fetches, the others wait.

Why not pooch or huggingface_hub: pooch starts over after every interruption, follows a redirect to
any host and reads a body of any length at any speed before it compares the hash; huggingface_hub
speaks the protocol of its hub only. Neither remembers the hash of a file that has none published.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import WEIGHTS, is_regular, open_regular
from ttl_mm.zoo.manifest import Entry
from ttl_mm.zoo.transfer import Report, TransferError, transfer

Say = Callable[[str], None]  # takes a line for the user
Check = Callable[[Path], str | None]  # why a file is not usable; None if it is

TIMEOUT = 30.0  # seconds without a byte from a server
ATTEMPTS = 5  # per address, as long as each one brings more bytes
LOCK_TIMEOUT = 3600.0  # seconds to wait for another process that is fetching the same file


class Fingerprint(NamedTuple):
    """What identifies the content of a file."""

    size: int
    sha256: str

    def mismatch(self, path: Path) -> str | None:
        """Why the file is not the one wanted; None if it is."""
        if not is_regular(path):
            return 'it is not there'
        found = path.stat().st_size
        if found != self.size:
            return f'it has {found} bytes instead of {self.size}'
        try:
            digest = sha256_of(path)
        except OSError as error:
            return f'it cannot be read: {error.strerror}'
        return None if digest == self.sha256 else f'its sha256 is {digest} instead of {self.sha256}'


def cache_folder() -> Path:
    """``$TTL_ZOO_CACHE``, or ttl_mm/zoo in the user's cache."""
    own = os.environ.get('TTL_ZOO_CACHE')
    base = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(own) if own else Path(base) / 'ttl_mm' / 'zoo'


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with open_regular(path, WEIGHTS) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def known_fingerprint(entry: Entry, cache: Path) -> Fingerprint | None:
    """Size and SHA-256 from the manifest, or as pinned when the file was first fetched."""
    if entry.sha256 is not None and entry.size is not None:
        return Fingerprint(entry.size, entry.sha256)
    return _read_pins(cache).get(_origin(entry))


def location(entry: Entry, cache: Path) -> Path:
    """Where the file is or will be: beside the manifest, or in the cache.

    A file without a published hash lies in a folder of its origin, so that another manifest which
    uses the same names cannot put a file in its place.
    """
    shipped = entry.shipped
    if shipped and shipped.exists():
        return shipped
    return cache / (entry.file if entry.sha256 else Path(_origin(entry)) / entry.file)


def _origin(entry: Entry) -> str:
    """A name for where an entry comes from: a hash of its addresses and of its file name."""
    text = '\n'.join([entry.file, *entry.urls])
    return f'unhashed-{hashlib.sha256(text.encode()).hexdigest()[:24]}'


def status(entry: Entry, cache: Path) -> str:
    """One of: ``ok``, ``missing``, ``unpinned``, or ``damaged: why``."""
    path = location(entry, cache)
    if not path.exists():
        return 'missing'
    wanted = known_fingerprint(entry, cache)
    if wanted is None:
        return 'unpinned'
    problem = wanted.mismatch(path)
    return f'damaged: {problem}' if problem else 'ok'


def fetch(
    entry: Entry,
    cache: Path | None = None,
    *,
    check: Check,
    allow_unhashed: bool = False,
    timeout: float = TIMEOUT,
    report: Report = lambda done, total: None,
    say: Say = lambda text: None,
) -> Path:
    """The path of the checked file, which is fetched first if necessary.

    Args:
        entry: What to fetch.
        cache: The folder of checked files.
        check: Examines a file that has no published hash, before its own hash is pinned.
        allow_unhashed: Whether such a file may be fetched at all.
        timeout: Seconds without a byte from a server.
        report: Called with the bytes received and the bytes in all.
        say: Called with a line for the user.

    Raises:
        UserError: The file could not be fetched; the message has the cause for each address.
    """
    cache = Path(cache or cache_folder())
    path, wanted = location(entry, cache), known_fingerprint(entry, cache)
    if wanted is None and not allow_unhashed:
        raise UserError(
            f'nobody has published a hash for {entry.name}: fetch it with --allow-unhashed '
            '(allow_unhashed=True) if you trust its source; its hash is pinned from then on.'
        )
    problem = wanted.mismatch(path) if wanted else None
    if wanted and problem is None:
        return path
    if path == entry.shipped:
        raise UserError(f'{path} is damaged, {problem}: install ttl_mm again.')
    with _lock(cache, entry.file, say):
        wanted = known_fingerprint(entry, cache)  # another process may have pinned or fetched it
        if wanted and path.exists():
            problem = wanted.mismatch(path)
            if problem is None:
                return path
            say(f'{path} is damaged ({problem}) and is fetched again')
            path.unlink()
        if not path.exists():
            # a part belongs to one content: another hash, another part
            name = wanted.sha256 if wanted else _origin(entry)
            part = cache / 'partial' / f'{name}.part{path.suffix}'
            _fetch_part(entry, part, path, wanted, check, say, timeout=timeout, report=report)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part, path)
        if wanted is None:
            _pin(entry, cache, path, say, check)
    return path


def _fetch_part(
    entry: Entry, part: Path, path: Path, wanted: Fingerprint | None, check: Check, say: Say,
    **options: Any,
) -> None:  # fmt: skip
    """Fetch the whole file into ``part`` from the first address that has it."""
    causes = [f'{entry.shipped} is missing'] if entry.shipped else []
    offline = os.environ.get('TTL_ZOO_OFFLINE', '0') not in ('', '0')
    for url in entry.remote_urls:
        if offline and not url.startswith('file:'):
            causes.append(f'{url}: TTL_ZOO_OFFLINE is set')
            continue
        say(f'fetching {url}')
        try:
            _fetch_from(url, part, wanted, check, redirect_hosts=entry.redirect_hosts, **options)
        except TransferError as error:
            causes.append(f'{url}: {error}')
        else:
            return
    with_hash = f' with sha256 {wanted.sha256}' if wanted else ''
    raise UserError(
        f'{entry.name} could not be fetched. {"; ".join(causes)}. Try again later, set '
        f'TTL_ZOO_MIRROR, or put the file{with_hash} at {path} yourself.'
    )


def _fetch_from(
    url: str, part: Path, wanted: Fingerprint | None, check: Check, **options: Any
) -> None:
    """Fetch one address, continuing after an interruption as long as bytes come in."""
    size = wanted.size if wanted else None
    for attempt in range(ATTEMPTS):
        before = _size_of(part)
        try:
            transfer(url, part, size, **options)
        except TransferError as error:
            brought_more = _size_of(part) > before
            if size is None:  # a later attempt could not tell whether this part is of its file
                part.unlink(missing_ok=True)
            if not error.temporary or not brought_more or attempt == ATTEMPTS - 1:
                raise
            continue
        problem = wanted.mismatch(part) if wanted else check(part)
        if problem is None:
            return
        part.unlink()
        if before == 0:  # every wrong byte came from this address
            raise TransferError(problem)
    raise TransferError('it never sent the right bytes')


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _pin(entry: Entry, cache: Path, path: Path, say: Say, check: Check) -> None:
    """Remember the fingerprint of a file that has none published."""
    problem = check(path)
    if problem:
        raise UserError(f'{entry.name} is not pinned: {problem}')
    with _lock(cache, 'pins.json', say):
        pins = _read_pins(cache)
        pins[_origin(entry)] = Fingerprint(path.stat().st_size, sha256_of(path))
        fresh = cache / 'partial' / 'pins.json'
        content = {origin: pin._asdict() for origin, pin in pins.items()}
        fresh.write_text(json.dumps(content, indent=1, sort_keys=True) + '\n')
        os.replace(fresh, cache / 'pins.json')


def _read_pins(cache: Path) -> dict[str, Fingerprint]:
    path = cache / 'pins.json'
    try:
        content = read_json(path)
        return {origin: _pinned(pin) for origin, pin in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f'{path} is damaged ({error}): delete it; hashes are pinned again at the next fetch.'
        ) from error


def _pinned(pin: dict[str, Any]) -> Fingerprint:
    found = Fingerprint(**pin)
    if type(found.size) is not int or not isinstance(found.sha256, str):
        raise ValueError('a pin is no size and hash')
    return found


def _lock(cache: Path, name: str, say: Say):
    """Hold the lock of one file of the cache, in a ``with``."""
    from filelock import FileLock, Timeout

    try:
        (cache / 'partial').mkdir(parents=True, exist_ok=True)
        lock = FileLock(cache / 'partial' / f'{name}.lock')
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            say(f'another process is fetching {name}: waiting for it')
            return lock.acquire(timeout=LOCK_TIMEOUT)
    except Timeout as error:
        raise UserError(
            f'another process has been fetching {name} into {cache} for {LOCK_TIMEOUT:g} s: end '
            'it, or set TTL_ZOO_CACHE to another folder.'
        ) from error
    except OSError as error:
        raise UserError(
            f'the cache folder {cache} cannot be written ({error.strerror}): set TTL_ZOO_CACHE to '
            'one that can.'
        ) from error
