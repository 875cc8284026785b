"""The folder of checked files: nothing gets into it that does not match the manifest.

A transfer goes into ``partial/`` and is moved into the folder only when size and SHA-256 are
right. A lock per file lets any number of processes ask at once: one fetches, the others wait.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.zoo.manifest import Entry
from ttl_mm.zoo.transfer import Report, TransferError, transfer

Say = Callable[[str], None]  # takes a line for the user
Check = Callable[[Path], str | None]  # why a file is not usable; None if it is

TIMEOUT = 30.0  # seconds without news from a server
ATTEMPTS = 5  # per address, as long as each one brings something
LOCK_TIMEOUT = 3600.0  # seconds to wait for another process that is fetching the same file


def cache_folder() -> Path:
    """``$TTL_ZOO_CACHE``, or ttl_mm/zoo in the user's cache."""
    own = os.environ.get('TTL_ZOO_CACHE')
    base = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(own) if own else Path(base) / 'ttl_mm' / 'zoo'


def is_offline() -> bool:
    """Whether ``$TTL_ZOO_OFFLINE`` forbids the network."""
    return os.environ.get('TTL_ZOO_OFFLINE', '0') not in ('', '0')


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open('rb') as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def problem_with(path: Path, size: int, sha256: str) -> str | None:
    """Why the file is not the one wanted; None if it is."""
    if not path.is_file():
        return 'it is not there'
    found = path.stat().st_size
    if found != size:
        return f'it has {found} bytes instead of {size}'
    digest = sha256_of(path)
    return None if digest == sha256 else f'its sha256 is {digest} instead of {sha256}'


def expectation(entry: Entry, cache: Path) -> tuple[int, str] | None:
    """Size and SHA-256 from the manifest, or from the pin of an earlier fetch."""
    if entry.sha256 is not None:
        return entry.size, entry.sha256
    pin = _read_pins(cache).get(entry.name)
    return (pin['size'], pin['sha256']) if pin else None


def status(entry: Entry, cache: Path | None = None) -> str:
    """One of: ``ok``, ``missing``, ``unpinned``, or ``damaged: why``."""
    cache = cache or cache_folder()
    path = entry.shipped or cache / entry.file
    if not path.exists():
        return 'missing'
    expected = expectation(entry, cache)
    if expected is None:
        return 'unpinned'
    problem = problem_with(path, *expected)
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
    """The path of the checked file, fetched first if need be.

    Args:
        entry: What to fetch.
        cache: The folder of checked files.
        check: Looks at a file that nobody has published a hash of, before it is pinned.
        allow_unhashed: Whether such a file may be fetched at all.
        timeout: Seconds without news from a server.
        report: Called with the bytes done and the bytes in all.
        say: Called with a line for the user.

    Raises:
        UserError: it could not be had; the message has the cause for each address.
    """
    cache = Path(cache or cache_folder())
    expected = expectation(entry, cache)
    if entry.shipped and entry.shipped.exists():
        problem = problem_with(entry.shipped, *expected)
        if problem:
            raise UserError(f'{entry.shipped} is damaged, {problem}: install ttl_mm again.')
        return entry.shipped
    path = cache / entry.file
    if expected and problem_with(path, *expected) is None:
        return path
    if expected is None and not allow_unhashed:
        raise UserError(
            f'nobody has published a hash for {entry.name}: fetch it with --allow-unhashed '
            '(allow_unhashed=True) if you trust its source; its hash is pinned from then on.'
        )
    with _lock(cache, entry.file, say):
        expected = expectation(entry, cache)  # another process may have pinned or fetched it
        if expected and problem_with(path, *expected) is None:
            return path
        if path.exists() and expected:
            say(f'{path} is damaged ({problem_with(path, *expected)}) and is fetched again')
            path.unlink()
        if not path.exists():
            _fetch_from_mirrors(entry, path, expected, timeout, report, say, check)
        if expected is None:
            _pin(entry, cache, path, say, check)
    return path


def _fetch_from_mirrors(
    entry: Entry,
    path: Path,
    expected: tuple[int, str] | None,
    timeout: float,
    report: Report,
    say: Say,
    check: Check,
) -> None:
    key = expected[1] if expected else entry.name
    part = path.parent / 'partial' / f'{key}.part{path.suffix}'
    causes = [f'{entry.shipped} is missing'] if entry.shipped else []
    for url in entry.remote_urls:
        if is_offline() and not url.startswith('file:'):
            causes.append(f'{url}: TTL_ZOO_OFFLINE is set')
            continue
        say(f'fetching {url}')
        try:
            _attempts(url, part, expected, timeout, entry.redirect_hosts, report, check)
        except TransferError as error:
            causes.append(f'{url}: {error}')
            continue
        os.replace(part, path)
        return
    wanted = f' with sha256 {expected[1]}' if expected else ''
    raise UserError(
        f'{entry.name} could not be fetched. {"; ".join(causes)}. Try again later, set '
        f'TTL_ZOO_MIRROR, or put the file{wanted} at {path} yourself.'
    )


def _attempts(url, part, expected, timeout, hosts, report, check) -> None:
    """Fetch one address, going on after an interruption as long as bytes come in."""
    size = expected[0] if expected else None
    for attempt in range(ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            transfer(url, part, size, timeout, hosts, report)
        except TransferError as error:
            after = part.stat().st_size if part.exists() else 0
            if size is None:  # nothing could tell later whether it is worth going on with
                part.unlink(missing_ok=True)
            if not error.passing or after <= before or attempt == ATTEMPTS - 1:
                raise
            continue
        problem = problem_with(part, *expected) if expected else check(part)
        if problem is None:
            return
        part.unlink()
        if before == 0:  # with nothing left over from before, this address is at fault
            raise TransferError(problem)
    raise TransferError('it never sent the right bytes')


def _pin(entry: Entry, cache: Path, path: Path, say: Say, check: Check) -> None:
    problem = check(path)
    if problem:
        raise UserError(f'{entry.name} is not pinned: {problem}')
    with _lock(cache, 'pins.json', say):
        pins = _read_pins(cache)
        pins[entry.name] = {'size': path.stat().st_size, 'sha256': sha256_of(path)}
        fresh = cache / 'partial' / 'pins.json'
        fresh.write_text(json.dumps(pins, indent=1, sort_keys=True) + '\n')
        os.replace(fresh, cache / 'pins.json')


def _read_pins(cache: Path) -> dict[str, dict]:
    path = cache / 'pins.json'
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise UserError(f'{path} is damaged ({error}): delete it to pin anew.') from error


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
