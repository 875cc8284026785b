"""Where the images of an archive lie: found once, kept in the user's cache, read from there.

Of every archive the cache holds four files: the places of its images, sorted by a hash of their
names, and their labels, which are mapped into memory and not read; their names in the order of the
archive, one per line; and a stamp with size and time of the archive, which is written last.
"""

import hashlib
import json
import mmap
import multiprocessing
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.files.archives import listing
from ttl_mm.files.archives.entry import DEFLATED, Entry
from ttl_mm.files.archives.parquet import parquet_to_tar
from ttl_mm.files.archives.tar import tar_entries
from ttl_mm.files.archives.zip import inflate, zip_entries
from ttl_mm.files.cache_folder import cache_folder
from ttl_mm.files.image_header import ARRAYS, EXTENSIONS
from ttl_mm.files.plain_json import parse_json, read_json
from ttl_mm.files.regular import NAMES, open_regular, read_bytes
from ttl_mm.files.stores.cache import is_remote, open_remote, remote_file
from ttl_mm.files.stores.remote import ASKED_AT_ONCE, read_small
from ttl_mm.files.stores.url import url_of

Reader = Callable[[BinaryIO], Iterator[Entry]]
READERS: dict[str, Reader] = {
    '.tar': tar_entries,
    '.zip': zip_entries,
}
ENDINGS = (*READERS, '.parquet')
INSIDE = re.compile(f'({"|".join(map(re.escape, ENDINGS))})/', re.IGNORECASE)
NO_LABEL = -1
MOST_LABEL = 2**31 - 1
MAX_LABEL_FILE = 2**16  # bytes of a .cls or .json
PARALLEL = 16  # new archives from which on all cores read them
VERSION = 3


@dataclass(frozen=True)
class ArchiveIndex:
    """The images of an archive.

    Args:
        content: The archive, or the copy of it that the places are of.
        size: Bytes of it.
        time: When it was changed last, in nanoseconds.
        names: A file with their names, in the order of the archive, one per line.
        places_file: Their places.
        labels_file: Their labels.
    """

    content: Path
    size: int
    time: int
    names: Path
    places_file: Path
    labels_file: Path

    @property
    def places(self) -> np.ndarray:
        """(5, N) uint64: hash of the name (ascending), offset, size, packed size, method."""
        return _map(self.places_file, np.uint64).reshape(5, -1)

    @property
    def labels(self) -> np.ndarray:
        """(N,) int32 in the order of the archive, ``NO_LABEL`` where there is none."""
        return _map(self.labels_file, np.int32)


def find_place(places: np.ndarray, name: str) -> Entry:
    """Where an image lies; KeyError if the archive has none of this name."""
    wanted = name_hash(name)
    place = int(np.searchsorted(places[0], np.uint64(wanted)))
    if place == places.shape[1] or int(places[0, place]) != wanted:
        raise KeyError(name)
    return Entry(name, *(int(value) for value in places[1:, place]))


def _map(path: Path, dtype: type) -> np.ndarray:
    """The numbers in a file that holds nothing else, read only when they are looked at."""
    with open_regular(path, NAMES) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(content, dtype)


def is_archive(name: str | os.PathLike) -> bool:
    """Whether a file of this name is an archive that can be read as a folder."""
    return os.fspath(name).lower().endswith(ENDINGS)


def name_in_archive(path: str) -> tuple[str, str]:
    """The archive in a path and the name in it, by their spelling alone; both empty without one.

    Example:
        >>> name_in_archive('shards/000.tar/cats/1.jpg')
        ('shards/000.tar', 'cats/1.jpg')
    """
    found = INSIDE.search(path)
    return (path[: found.end() - 1], path[found.end() :]) if found else ('', '')


def name_hash(name: str) -> int:
    """64 bits of a name."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), 'little')


def archive_index(path: str | os.PathLike, listed: bool = False) -> ArchiveIndex:
    """The index of an archive, from the cache unless the archive has changed since.

    Args:
        path: The archive.
        listed: Whether names and labels are enough: of an archive in a store they may come from a
            list beside it (:mod:`ttl_mm.files.archives.listing`), without the archive.

    Raises:
        UserError: It cannot be read, is damaged, holds no image, or two of the same name.
    """
    path = Path(path).resolve()
    base = _base(path)
    try:
        if is_remote(path):
            return _remote_index(path, base, listed)
        with open_regular(path, NAMES) as file:
            status = os.fstat(file.fileno())
            stamp = {'version': VERSION, 'size': status.st_size, 'time': status.st_mtime_ns}
            found = _load(path, base, stamp)
            if found is not None:
                return found
            if is_parquet(path):
                parquet_to_tar(file, _content(path, base))
                with open_regular(_content(path, base), NAMES) as copy:
                    return _build(path, base, stamp, copy, tar_entries)
            return _build(path, base, stamp, file, READERS[path.suffix.lower()])
    except OSError as error:
        raise UserError(f'{path} cannot be read: {error.strerror}.') from None
    except ValueError as error:
        raise UserError(f'{path}: {error}.') from None


def _remote_index(path: Path, base: Path, listed: bool) -> ArchiveIndex:
    """The index of an archive in a store, which is fetched only if the index is not there."""
    about = remote_file(path)
    stamp = {'version': VERSION, 'size': about.size, 'time': about.time}
    found = _load(path, base, stamp) or (_listed(path, base, stamp) if listed else None)
    if found is not None:
        return found
    if path.suffix.lower() not in READERS:
        raise ValueError(f'of a store, files ending in {" ".join(READERS)} are read, no others')
    with open_remote(path) as file:
        try:
            return _build(path, base, stamp, file, READERS[path.suffix.lower()])
        except ValueError as error:
            raise UserError(f'{url_of(path)}: {error}.') from None


def _listed(path: Path, base: Path, stamp: dict[str, int]) -> ArchiveIndex | None:
    """The index without places that the list beside an archive tells; None without a list."""
    stamp_file, names, places_file, labels_file = _files(_listing(base))
    found = ArchiveIndex(path, stamp['size'], stamp['time'], names, places_file, labels_file)
    with suppress(OSError, ValueError):
        if read_json(stamp_file) == stamp:
            return found
    url = f'{url_of(path)}{listing.ENDING}'
    content = read_small(url, listing.MOST_BYTES)
    try:
        told = listing.parse_listing(os.fsdecode(content or b''), stamp['size'], MOST_LABEL)
    except ValueError as error:
        raise UserError(f'{url}: {error}. Write it again with `ttl shard`.') from None
    if told is None:
        return None
    _write(names, _lines(told.names))
    _write(labels_file, array('i', told.labels).tobytes())
    _write(stamp_file, json.dumps(stamp).encode())
    return found


def _check_listing(base: Path, stamp: dict[str, int], names: bytes, labels: bytes) -> None:
    """What an archive holds is what the list beside it told, if it was asked before."""
    stamp_file, names_file, _, labels_file = _files(_listing(base))
    try:
        if read_json(stamp_file) != stamp:
            return
    except (OSError, ValueError):
        return
    told = [read_bytes(file, NAMES) for file in (names_file, labels_file)]
    if told != [names, labels]:
        raise ValueError(
            f'it holds other images than the file {listing.ENDING} beside it lists: delete that, '
            'or write the shards again with `ttl shard`'
        )


def _listing(base: Path) -> Path:
    return base.with_name(f'{base.name}-listed')


def _lines(names: Sequence[str]) -> bytes:
    return b''.join(os.fsencode(name) + b'\n' for name in names)


def index_archives(paths: Sequence[Path]) -> Iterator[ArchiveIndex]:
    """Names and labels of each archive in turn; many that are new are read by all cores at once.

    Those in a store may come without their places (:func:`archive_index`).
    """
    new = [path for path in paths if _is_new(path)]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        list(pool.map(_list_quietly, filter(is_remote, new)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else 1
    if cores > 1 and sum(map(_is_new, new)) >= PARALLEL:
        with multiprocessing.get_context('spawn').Pool(cores) as pool_of_processes:
            for path, _ in zip(paths, pool_of_processes.imap(_index_quietly, paths, chunksize=4)):
                yield archive_index(path, listed=True)  # from the cache, or says what is wrong
        return
    for path in paths:
        yield archive_index(path, listed=True)


def _is_new(path: Path) -> bool:
    base = _base(path.resolve())
    return not any(_files(one)[0].is_file() for one in (base, _listing(base)))


def _list_quietly(path: Path) -> None:
    with suppress(UserError, OSError):
        about = remote_file(path)
        stamp = {'version': VERSION, 'size': about.size, 'time': about.time}
        _listed(path, _base(path.resolve()), stamp)


def _index_quietly(path: Path) -> None:
    with suppress(UserError):
        archive_index(path, listed=True)


def _base(path: Path) -> Path:
    """The files of an archive in the cache, without their endings."""
    return cache_folder('archives') / hashlib.sha256(os.fsencode(path)).hexdigest()[:24]


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet table, by its name."""
    return path.suffix.lower() == '.parquet'


def _content(path: Path, base: Path) -> Path:
    return base.with_name(f'{base.name}.tar') if is_parquet(path) else path


def _files(base: Path) -> tuple[Path, Path, Path, Path]:
    endings = ('.json', '.txt', '.places', '.labels')
    return tuple(base.with_name(base.name + ending) for ending in endings)  # type: ignore


def _load(path: Path, base: Path, stamp: dict[str, int]) -> ArchiveIndex | None:
    """What the cache holds for the archive as it is now."""
    stamp_file, names, places_file, labels_file = _files(base)
    try:
        if read_json(stamp_file) != stamp:
            return None
        content, version = _content(path, base), (stamp['size'], stamp['time'])
        if not is_remote(path):
            status = content.stat()
            version = status.st_size, status.st_mtime_ns
        found = ArchiveIndex(content, *version, names, places_file, labels_file)
        whole = found.places.shape[1] == len(found.labels)
    except (OSError, ValueError):
        return None
    return found if whole and names.is_file() else None


def _build(
    path: Path, base: Path, stamp: dict[str, int], file: BinaryIO, read: Reader
) -> ArchiveIndex:
    names: list[str] = []
    places, labels = array('Q'), array('i')
    for endings in (EXTENSIONS, ARRAYS):
        for entry, label in labeled_images(read(file), file, endings):
            names.append(entry.name)
            places.extend((name_hash(entry.name), *entry[1:]))
            labels.append(label)
        if names:
            break
    else:
        raise ValueError(f'it holds no image: expected files ending in {" ".join(EXTENSIONS)}')
    table = np.frombuffer(places, np.uint64).reshape(-1, 5).T
    order = np.argsort(table[0], kind='stable')
    twice = np.flatnonzero(np.diff(table[0][order]) == 0)
    if len(twice):
        raise ValueError(f'it has two files named {names[int(order[twice[0]])]!r}')
    contents = [_lines(names), table[:, order].tobytes(), labels.tobytes()]
    _check_listing(base, stamp, contents[0], contents[2])
    contents.append(json.dumps(stamp).encode())
    stamp_file, *files = _files(base)
    stamp_file.unlink(missing_ok=True)
    for target, content in zip([*files, stamp_file], contents):
        _write(target, content)
    loaded = _load(path, base, stamp)
    if loaded is None:
        raise ValueError(f'its index cannot be kept in {base.parent}')
    return loaded


def _write(target: Path, content: bytes) -> None:
    """A file that appears complete or not at all, and never through a link."""
    partial = target.with_name(f'{target.name}.{uuid4().hex}.partial')
    try:
        with partial.open('xb') as file:
            file.write(content)
        os.replace(partial, target)
    finally:
        with suppress(OSError):
            partial.unlink()


def labeled_images(
    entries: Iterator[Entry], file: BinaryIO, endings: tuple[str, ...]
) -> Iterator[tuple[Entry, int]]:
    """The images, files with these endings, among the files of an archive, with their labels.

    As in WebDataset, files in a row whose names are equal up to the first dot belong to one sample;
    a ``.cls`` file holds its label as a number, a ``.json`` file as ``label``. Hidden files are
    left out.
    """
    for _, group in groupby(entries, key=lambda entry: _sample(entry.name)):
        images, label = [], NO_LABEL
        for entry in group:
            ending = entry.name.lower()
            if ending.endswith(endings):
                if '/.' not in f'/{entry.name}':
                    images.append(entry)
            elif ending.endswith(('.cls', '.json')):
                told = _label(entry, file)
                if told != label and NO_LABEL not in (told, label):
                    raise ValueError(
                        f'{entry.name!r} has the label {told}, and a file beside it {label}: '
                        'leave one'
                    )
                label = label if told == NO_LABEL else told
        for entry in images:
            yield entry, label


def _sample(name: str) -> str:
    folder, slash, file = name.rpartition('/')
    return folder + slash + file.partition('.')[0]


def _label(entry: Entry, file: BinaryIO) -> int:
    if max(entry.size, entry.packed) > MAX_LABEL_FILE:
        raise ValueError(f'{entry.name!r} has {entry.size} bytes and cannot be a label')
    content = os.pread(file.fileno(), entry.packed, entry.offset)
    if entry.method == DEFLATED:
        content = inflate(content, entry.size)
    try:
        value: Any = parse_json(content)
    except ValueError:
        raise ValueError(f'{entry.name!r} is no label: {content[:40]!r}') from None
    if isinstance(value, dict):
        value = value.get('label', NO_LABEL)
    if type(value) is not int or not NO_LABEL <= value <= MOST_LABEL:
        raise ValueError(f'{entry.name!r} is no label: {content[:40]!r}')
    return value
