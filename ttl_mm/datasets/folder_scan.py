"""Find the images below a folder; the list is cached until one of the folders changes."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmengine.dist import barrier
from mmengine.logging import print_log

from ttl_mm.datasets.name_list import NameList, write_name_list
from ttl_mm.errors import UserError

EXTENSIONS = tuple(
    [
        '.jpg',
        '.jpeg',
        '.png',
        '.webp',
        '.gif',
        '.bmp',
        '.tif',
        '.tiff',
        '.jp2',
        '.avif',
        '.ppm',
        '.pgm',
        '.pbm',
    ]
)
REPORT_SECONDS = 5


def scan_folder(root: str | os.PathLike) -> NameList:
    """The images below ``root``, as sorted paths relative to it.

    Hidden files and folders are left out, links are followed. One process per node scans, the
    others wait for its list. The list comes from the cache if no folder below ``root`` has changed
    since it was made; to find out takes one ``stat`` per folder.
    """
    root = Path(root).resolve()
    if not root.is_dir():
        raise UserError(f'{root} is not a folder: check data_root.')
    key = hashlib.sha256('\n'.join([str(root), *EXTENSIONS]).encode()).hexdigest()[:24]
    names = _cache_folder() / f'{key}.txt'
    if int(os.environ.get('LOCAL_RANK', 0)) == 0 and not _is_current(root, names):
        _scan(root, names)
    barrier()
    return NameList(names)


def _cache_folder() -> Path:
    base = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    folder = base / 'ttl_mm' / 'scans'
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # a read-only home: every machine has its own cache
        folder = Path(tempfile.gettempdir()) / f'ttl_mm-scans-{os.getuid()}'
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _scan(root: Path, names: Path) -> None:
    """Write the list, then its stamp: a list without a stamp is not complete."""
    folders: dict[str, int] = {}
    stamp = names.with_suffix('.json')
    stamp.unlink(missing_ok=True)
    write_name_list(names, _reported(list_images(root, folders), root))
    if not names.stat().st_size:
        raise UserError(
            f'no images below {root} ({len(folders)} folders): expected files with one of the '
            f'endings {" ".join(EXTENSIONS)}.'
        )
    partial = stamp.with_name(f'{stamp.name}.{os.getpid()}.partial')
    partial.write_text(json.dumps({'size': names.stat().st_size, 'folders': folders}))
    os.replace(partial, stamp)


def _is_current(root: Path, names: Path) -> bool:
    """Whether the cached list is complete and no folder has changed since the scan."""
    try:
        stamp = json.loads(names.with_suffix('.json').read_text())
        return names.stat().st_size == stamp['size'] and all(
            os.stat(root / folder).st_mtime_ns == modified
            for folder, modified in stamp['folders'].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def list_images(root: Path, folders: dict[str, int]) -> Iterator[str]:
    """Yield the images below ``root`` in order; ``folders`` collects folders and their times."""
    pending, seen = [''], set()
    while pending:
        folder = pending.pop()
        status = os.stat(root / folder)
        if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[folder] = status.st_mtime_ns
        inner = []
        with os.scandir(root / folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith('.')]
        for entry in sorted(shown, key=lambda entry: entry.name):
            name = os.path.join(folder, entry.name)
            if entry.is_dir():
                inner.append(name)
            elif name.lower().endswith(EXTENSIONS):
                yield name
        pending += reversed(inner)


def _reported(names: Iterator[str], root: Path) -> Iterator[str]:
    """Yield all names, and log their number every few seconds and at the end."""
    count, reported = 0, time.monotonic()
    for count, name in enumerate(names, 1):
        if count % 1000 == 0 and time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            print_log(f'{root}: {count:,} images found so far', 'current')
        yield name
    if count:
        print_log(f'{root}: {count:,} images found; the list is now cached', 'current')
