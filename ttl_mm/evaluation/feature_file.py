"""The features of a dataset in one file, written in batches and read memory-mapped.

The file is a safetensors file: ``stage4`` (N, D) and the other stages asked for, ``labels`` (N,),
``paths`` (UTF-8, one a line), and in its header what made it. While it is written it is called
``*.partial`` and ``*.progress`` beside it says which batches are there, so that an interrupted
extraction, of any number of processes, continues where it stopped.

A finished file is sealed as a checkpoint is: its header has the SHA-256 of the whole file, computed
with 64 zeros in the place of the hash. Whoever opens it compares, so any damage is noticed.
"""

import hashlib
import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ttl_mm.checkpoint.safetensors_file import Place, read_header
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import FEATURES, open_regular, read_bytes

FORMAT = 'ttl_mm features 2'
UNSEALED_FORMAT = 'ttl_mm features 1'  # of version 0.1
_DTYPES = {'F32': np.float32, 'I64': np.int64, 'U8': np.uint8}
_NUMPY = {str(np.dtype(kind)): np.dtype(kind) for kind in _DTYPES.values()}
_NO_SEAL = '0' * 64
_CHUNK = 1 << 22
REMEDY = 'make it again with `ttl eval CHECKPOINT`'


NO_LABEL, NO_IMAGE = -1, -2  # in the place of a label: unknown, or the file cannot be read


@dataclass(frozen=True)
class Features:
    """Features of one split: (N, D) memory-mapped, (N,) class numbers, N paths, and their origin.

    ``about`` has at least ``weights``, a hash of the network, and ``data``, one of the images.
    """

    features: np.ndarray
    labels: np.ndarray
    paths: list[str]
    classes: list[str]
    about: dict


def is_feature_file(path: str | os.PathLike) -> bool:
    """Whether this is a file of ours, whole or damaged; other safetensors files are not."""
    try:
        with open_regular(path, FEATURES) as file:
            return b'"format": "ttl_mm features ' in file.read(4096)
    except (OSError, ValueError):
        return False


def read_features(path: str | os.PathLike, stage: int | None = None) -> Features:
    """Open a feature file at one of its stages, the last by default.

    Raises:
        UserError: It is damaged, of another kind, or has not that stage.
    """
    path = Path(path)
    try:
        with open_regular(path, FEATURES) as file:
            places, texts = read_header(file)
            if texts.get('format') == UNSEALED_FORMAT:
                raise UserError(f'{path} was made by version 0.1 and has no seal: {REMEDY}.')
            if texts.get('format') != FORMAT:
                raise UserError(f'{path} is no file of features: make one with `ttl eval`.')
            if seal_of(file, texts.get('sha256', '')) != texts.get('sha256'):
                raise UserError(
                    f'{path} is damaged, its content does not match its seal: {REMEDY}.'
                )
            return _open(path, file, places, texts, stage)
    except OSError as error:
        raise UserError(f'{path} cannot be read as a feature file: {error.strerror}.') from error
    except UserError:
        raise
    except Exception as error:  # a damaged header raises anything
        raise UserError(f'{path} is no whole feature file ({error}): {REMEDY}.') from error


def _open(
    path: Path, file: BinaryIO, places: dict[str, Place], texts: dict[str, str], stage: int | None
) -> Features:
    """The content of a file whose seal holds; a stranger can seal a file, so it is checked too."""
    stages = [name for name in places if name.startswith('stage')]
    name = (stages or ['stage4'])[-1] if stage is None else f'stage{stage}'
    if name not in stages:
        raise UserError(f'{path} has no stage {stage}: it has {", ".join(stages)}.')
    rows, labels, paths = (_map(file, places[key]) for key in (name, 'labels', 'paths'))
    names = paths.tobytes().decode('utf-8', 'surrogateescape').split('\n')
    classes, about = (parse_json(texts[key]) for key in ('classes', 'about'))
    plain = isinstance(about, dict) and isinstance(classes, list)
    if not plain or not all(isinstance(text, str) for text in classes):
        raise ValueError('its classes are no list of names')
    if not (rows.ndim == 2 and rows.dtype == np.float32 and labels.dtype == np.int64):
        raise ValueError(f'its {name} has shape {rows.shape} and kind {rows.dtype}')
    if not labels.shape == rows.shape[:1] == (len(names),):
        raise ValueError(f'it has {len(rows)} rows, {labels.size} labels and {len(names)} names')
    if labels.size and not (labels.min() >= NO_IMAGE and labels.max() < len(classes)):
        raise ValueError(f'it has a label that is none of its {len(classes)} classes')
    _require_finite(rows, names, path)
    about = {**about, 'stage': int(name.removeprefix('stage'))}
    return Features(rows, np.array(labels), names, classes, about)


def _require_finite(rows: np.ndarray, names: list[str], path: Path) -> None:
    step = max(1, _CHUNK // (4 * max(1, rows.shape[1])))
    for start in range(0, len(rows), step):
        good = np.isfinite(rows[start : start + step]).all(axis=1)
        if not good.all():
            name = names[start + int(good.argmin())]
            raise UserError(f'{path} has features that are not finite, of {name}: {REMEDY}.')


def seal_of(file: BinaryIO, seal: str) -> str:
    """The SHA-256 of a file with zeros in the place of ``seal``, which its header holds."""
    file.seek(0)
    head = file.read(8)
    head += file.read(int.from_bytes(head, 'little'))
    if len(seal) != len(_NO_SEAL) or head.count(_sealed(seal)) != 1:
        return ''
    digest = hashlib.sha256(head.replace(_sealed(seal), _sealed(_NO_SEAL)))
    while block := file.read(_CHUNK):
        digest.update(block)
    return digest.hexdigest()


def _sealed(seal: str) -> bytes:
    return json.dumps({'sha256': seal})[1:-1].encode()


class FeatureWriter:
    """Writes batches of rows to their places; create it on one process, then open it on others.

    Args:
        path: the file to make.
        stages: the number of features of every stage, as in ``{4: 2048}``.
        paths: one a sample.
        classes: the names of the classes.
        about: what the features are of; plain values.
        batch_size: rows of a batch; batch b has the rows from ``b * batch_size``.
        create: whether to make the partial file where there is none that fits.
    """

    def __init__(self, path, stages: dict, paths: list, classes, about, batch_size, create=True):
        self.path = Path(path)
        names = '\n'.join(paths).encode('utf-8', 'surrogateescape')  # names that are no UTF-8, too
        header = _header(stages, len(paths), len(names), classes, about)
        self._partial = self.path.with_name(self.path.name + '.partial')
        self._progress = self.path.with_name(self.path.name + '.progress')
        digest = hashlib.sha256(header + names + str(batch_size).encode()).digest()
        self.num_batches = -(-len(paths) // batch_size)
        if create and not self._fits(digest):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._create(header, names, digest)
        with open_regular(self._partial, FEATURES) as file:
            places, _ = read_header(file)
        self._starts = {name: place.first for name, place in places.items()}
        self._progress_start = len(digest)
        self._batch_size = batch_size

    def _fits(self, digest: bytes) -> bool:
        if not (self._partial.exists() and self._progress.exists()):
            return False
        found = read_bytes(self._progress, FEATURES)
        return found[: len(digest)] == digest and len(found) == len(digest) + self.num_batches

    def _create(self, header: bytes, names: bytes, digest: bytes) -> None:
        self._progress.unlink(missing_ok=True)
        self._partial.unlink(missing_ok=True)
        first, last = parse_json(header[8:])['paths']['data_offsets']
        size, free = len(header) + last, shutil.disk_usage(self.path.parent).free
        if size > free:
            raise UserError(f'{self.path} needs {size:,} bytes and {free:,} are free: make room.')
        with open(self._partial, 'wb') as file:
            file.write(header)
            file.seek(len(header) + first)
            file.write(names)
            file.truncate(size)
            if hasattr(os, 'posix_fallocate'):  # the disk must not fill up half-way
                os.posix_fallocate(file.fileno(), 0, size)
        self._progress.write_bytes(digest + bytes(self.num_batches))

    def missing(self) -> list[int]:
        """The batches that are not written yet."""
        done = np.frombuffer(
            read_bytes(self._progress, FEATURES), np.uint8, offset=self._progress_start
        )
        return np.flatnonzero(done == 0).tolist()

    def write(self, batch: int, stages: dict[int, np.ndarray], labels: np.ndarray) -> None:
        """Write one batch; it counts as written when all of it has reached the disk."""
        first = batch * self._batch_size
        for stage, features in stages.items():
            rows = np.ascontiguousarray(features, np.float32)
            at = self._starts[f'stage{stage}'] + first * rows.itemsize * rows.shape[1]
            _write_at(self._partial, rows, at)
        codes = np.ascontiguousarray(labels, np.int64)
        _write_at(self._partial, codes, self._starts['labels'] + first * codes.itemsize)
        _write_at(self._progress, np.ones(1, np.uint8), self._progress_start + batch)

    def finish(self) -> None:
        """Seal the file and give it its name; every batch must be written."""
        with open(self._partial, 'r+b') as file:
            before = read_header(file)[1]['sha256']  # not zeros if a kill came just after the seal
            seal = seal_of(file, before)
            file.seek(0)
            place = file.read(_CHUNK).index(_sealed(before))
            file.seek(place)
            file.write(_sealed(seal))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._partial, self.path)
        self._progress.unlink()


def _write_at(path: Path, rows: np.ndarray, position: int) -> None:
    """Write ``rows`` to a place in a file that processes on other machines write to as well.

    Not through a memory map: that writes whole pages, and on a network file system the page of one
    machine overwrites what another has written beside its own rows. For the same reason the file is
    opened for writing alone and synchronized (Linux then sends the very bytes, and at once).
    """
    handle = os.open(path, os.O_WRONLY | os.O_DSYNC)
    try:
        content = rows.data.cast('B')
        while content:
            written = os.pwrite(handle, content, position)
            content, position = content[written:], position + written
    finally:
        os.close(handle)


def _header(stages: dict, count: int, path_bytes: int, classes, about: dict) -> bytes:
    shapes = {f'stage{s}': ('F32', [count, dim]) for s, dim in sorted(stages.items())}
    shapes |= {'labels': ('I64', [count]), 'paths': ('U8', [path_bytes])}
    layout: dict = {
        '__metadata__': {
            'format': FORMAT,
            'sha256': _NO_SEAL,
            'classes': json.dumps(list(classes)),
            'about': json.dumps(about, sort_keys=True),
        }
    }
    offset = 0
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        layout[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [offset, offset + size]}
        offset += size
    text = json.dumps(layout).encode()
    text += b' ' * (-len(text) % 8)  # so that the arrays are aligned
    return len(text).to_bytes(8, 'little') + text


def _map(file: BinaryIO, place: Place) -> Any:
    """A tensor of an open file as an array that is read in its place."""
    dtype = _NUMPY.get(str(place.dtype).removeprefix('torch.'))
    if dtype is None:
        raise ValueError(f'it has values of kind {place.dtype}')
    if math.prod(place.shape) == 0:
        return np.zeros(place.shape, dtype)
    return np.memmap(file, dtype, 'r', place.first, place.shape)
