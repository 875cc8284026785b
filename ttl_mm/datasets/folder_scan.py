"""Find the images below a folder; the list is cached until one of the folders changes.

Archives count as folders (:mod:`ttl_mm.files.archives`) where there are no image files: an archive
that lies beside the files it was unpacked to would give every image twice. Files of NumPy count as
images where there is nothing else: beside images they are features or annotations.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from mmengine.dist import all_gather_object
from mmengine.logging import print_log

from ttl_mm.datasets.epoch_order import archives_of
from ttl_mm.datasets.name_list import NameList, write_name_list
from ttl_mm.errors import UserError, printable
from ttl_mm.files.archives.index import ENDINGS, index_archives, is_archive
from ttl_mm.files.cache_folder import cache_folder
from ttl_mm.files.image_header import ARRAYS, EXTENSIONS
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import LOG
from ttl_mm.files.stores.cache import is_remote, remote_file
from ttl_mm.files.stores.listing import local_root, refresh, remote_archives
from ttl_mm.files.stores.url import as_given, is_url

REPORT_SECONDS = 5


def scan_folder(root: str | os.PathLike) -> NameList:
    """The images below ``root``, a folder or an archive, as sorted paths relative to it.

    ``root`` may be an address in a store: then they are relative to its place in the cache
    (:func:`ttl_mm.files.stores.listing.local_root`).

    Hidden files and folders are left out, links are followed. One process per node scans, the
    others wait for its list. The list comes from the cache if no folder below ``root`` has changed
    since it was made; to find out takes one ``stat`` per folder.
    """
    source = as_given(root)
    if not is_url(source):
        source = str(Path(root).resolve())
    key = hashlib.sha256(os.fsencode('\n'.join([source, *EXTENSIONS]))).hexdigest()[:24]
    names = cache_folder('scans') / f'{key}.txt'
    if is_url(source):
        _once_per_node(lambda: _make_current_of_store(source, names))
    else:
        _once_per_node(lambda: _make_current(Path(source), names))
    return NameList(names)


def ask_again(root: str | os.PathLike, names: Sequence[str]) -> None:
    """Ask a store about the archives that a list names, which may have been replaced meanwhile."""
    archives = archives_of(names)
    if archives is not None:
        paths = [Path(root, name) for name in archives.names]
        _once_per_node(lambda: refresh(paths))


def _once_per_node(work: Callable[[], None]) -> None:
    """Let one process of each node do something, while the others wait for it."""
    problem = None
    if int(os.environ.get('LOCAL_RANK', 0)) == 0:
        try:
            work()
        except (UserError, OSError) as error:
            problem = error
    # also a barrier; if one node cannot do it, the processes of all nodes say so
    for found in all_gather_object(problem):
        if found is not None:
            raise found


def _make_current(root: Path, names: Path) -> None:
    """Scan ``root`` unless the cached list is as a scan would make it."""
    if not (root.is_dir() or (root.is_file() and is_archive(root))):
        raise UserError(f'{root} is not a folder: check data_root.')
    if not _is_current(root, names):
        _scan(root, names)


def _make_current_of_store(url: str, names: Path) -> None:
    """The same for an address: the list is that of all archives which the store has now."""
    root, archives = local_root(url), remote_archives(url)
    inner = ['' if path == root else os.path.relpath(path, root) for path in archives]
    versions = {name: remote_file(path).time for name, path in zip(inner, archives)}
    try:
        stamp = read_json(names.with_suffix('.json'), LOG)
        if names.stat().st_size == stamp['size'] and stamp['folders'] == versions:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found: dict[str, int] = {}
    _write_list(_in_archives(root, inner, found), root, names, found)


def _scan(root: Path, names: Path) -> None:
    folders: dict[str, int] = {}
    _write_list(list_images(root, folders), root, names, folders)


def _write_list(images: Iterator[str], root: Path, names: Path, folders: dict[str, int]) -> None:
    """Write the list, then its stamp: a list without a stamp is not complete."""
    stamp = names.with_suffix('.json')
    stamp.unlink(missing_ok=True)
    write_name_list(names, _reported(images, root))
    if not names.stat().st_size:
        raise UserError(
            f'no images below {root} (folders searched: {len(folders)}): name a folder that has '
            f'files with one of the endings {" ".join(EXTENSIONS)}, or archives '
            f'({" ".join(ENDINGS)}).'
        )
    partial = stamp.with_name(f'{stamp.name}.{uuid4().hex}.partial')
    with partial.open('x') as file:  # and never through a link that somebody has put there
        json.dump({'size': names.stat().st_size, 'folders': folders}, file)
    os.replace(partial, stamp)


def _is_current(root: Path, names: Path) -> bool:
    """Whether the cached list is complete and no folder has changed since the scan."""
    try:
        stamp = read_json(names.with_suffix('.json'), LOG)
        return names.stat().st_size == stamp['size'] and all(
            os.stat(root / folder).st_mtime_ns == modified
            for folder, modified in stamp['folders'].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def list_images(root: Path, folders: dict[str, int]) -> Iterator[str]:
    """Yield the images below ``root`` in order; ``folders`` collects folders and their times."""
    if not root.is_dir():
        yield from _in_archives(root, [''], folders)
        return
    archives: list[str] = []
    found_files = False
    for name in _list_files(root, folders, archives, EXTENSIONS):
        found_files = True
        yield name
    if archives and not found_files:
        yield from _in_archives(root, archives, folders)
    elif not found_files:
        yield from _list_files(root, folders, [], ARRAYS)
    elif archives:
        print_log(
            f'{len(archives)} archives below {printable(str(root))} are left out, such as '
            f'{printable(archives[0])}: there are image files as well. Name an archive to use it.',
            'current',
        )


def _in_archives(root: Path, archives: Sequence[str], folders: dict[str, int]) -> Iterator[str]:
    """The images in archives, named by their path relative to ``root``."""
    paths = [root / archive for archive in archives]
    for archive, path, index in zip(archives, paths, index_archives(paths)):
        folders[archive] = index.time if is_remote(path) else os.stat(path).st_mtime_ns
        for name in NameList(index.names):
            yield os.path.join(archive, name)


def _list_files(
    root: Path, folders: dict[str, int], archives: list[str], endings: tuple[str, ...]
) -> Iterator[str]:
    """Yield the files below ``root`` with these endings; ``archives`` collects the archives."""
    pending, seen = [''], set()
    while pending:
        folder = pending.pop()
        status, shown = _look_into(root / folder)
        if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[folder] = status.st_mtime_ns
        inner = []
        for entry in sorted(shown, key=lambda entry: entry.name):
            name = os.path.join(folder, entry.name)
            if _is_folder(entry):
                inner.append(name)
            elif name.lower().endswith(endings):
                yield name
            elif is_archive(name):
                archives.append(name)
        pending += reversed(inner)


def _look_into(folder: Path) -> tuple[os.stat_result, list[os.DirEntry]]:
    """What is known about a folder, and the entries that are not hidden."""
    try:
        with os.scandir(folder) as entries:
            return os.stat(folder), [e for e in entries if not e.name.startswith('.')]
    except OSError as error:
        raise UserError(
            f'{str(folder)[:500]} cannot be listed ({error.strerror}): make it readable, or move '
            'it out of the folder of images.'
        ) from error


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _reported(names: Iterator[str], root: Path) -> Iterator[str]:
    """Yield all names; of a scan that takes long, log their number every few seconds."""
    reported = time.monotonic()
    for count, name in enumerate(names, 1):
        if count % 1000 == 0 and time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            print_log(f'{printable(str(root))}: {count:,} images found so far', 'current')
        yield name
