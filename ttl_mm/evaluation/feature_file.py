"""The features of a dataset in one file, written in batches and read memory-mapped.

The file is a safetensors file: ``stage4`` (N, D) and the other stages asked for, ``labels`` (N,),
``paths`` (UTF-8, one a line), and in its header what made it. While it is written it is called
``*.partial`` and ``*.progress`` beside it says which batches are there, so that an interrupted
extraction, of any number of processes, continues where it stopped.
"""

import hashlib
import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.errors import UserError

FORMAT = 'ttl_mm features 1'
_DTYPES = {'F32': np.float32, 'I64': np.int64, 'U8': np.uint8}
_MAX_HEADER = 1 << 26


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
    """Whether this is a file of ours; safetensors files of other contents are not."""
    try:
        return _read_header(Path(path))[0].get('__metadata__', {}).get('format') == FORMAT
    except UserError:
        return False


def read_features(path: str | os.PathLike, stage: int | None = None) -> Features:
    """Open a feature file at one of its stages, the last by default."""
    path = Path(path)
    header, start = _read_header(path)
    metadata = header.pop('__metadata__', {})
    if metadata.get('format') != FORMAT:
        raise UserError(f'{path} is no file of features: make one with `ttl eval CHECKPOINT`.')
    stages = [name for name in header if name.startswith('stage')]
    name = stages[-1] if stage is None else f'stage{stage}'
    if name not in stages:
        raise UserError(f'{path} has no stage {stage}: it has {", ".join(stages)}.')
    arrays = {key: _map(path, header[key], start, 'r') for key in (name, 'labels', 'paths')}
    return Features(
        features=arrays[name],
        labels=np.array(arrays['labels']),
        paths=arrays['paths'].tobytes().decode().split('\n'),
        classes=json.loads(metadata['classes']),
        about={**json.loads(metadata['about']), 'stage': int(name.removeprefix('stage'))},
    )


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
        names = '\n'.join(paths).encode()
        header = _header(stages, len(paths), len(names), classes, about)
        self._partial = self.path.with_name(self.path.name + '.partial')
        self._progress = self.path.with_name(self.path.name + '.progress')
        digest = hashlib.sha256(header + names + str(batch_size).encode()).digest()
        self.num_batches = -(-len(paths) // batch_size)
        if create and not self._fits(digest):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._create(header, names, digest)
        layout, start = _read_header(self._partial)
        self._rows = {s: _map(self._partial, layout[f'stage{s}'], start, 'r+') for s in stages}
        self._labels = _map(self._partial, layout['labels'], start, 'r+')
        self._done = np.memmap(self._progress, np.uint8, 'r+', offset=len(digest))
        self._batch_size = batch_size

    def _fits(self, digest: bytes) -> bool:
        if not (self._partial.exists() and self._progress.exists()):
            return False
        found = self._progress.read_bytes()
        return found[: len(digest)] == digest and len(found) == len(digest) + self.num_batches

    def _create(self, header: bytes, names: bytes, digest: bytes) -> None:
        self._progress.unlink(missing_ok=True)
        self._partial.unlink(missing_ok=True)
        first, last = json.loads(header[8:])['paths']['data_offsets']
        size, free = len(header) + last, shutil.disk_usage(self.path.parent).free
        if size > free:
            raise UserError(f'{self.path} needs {size:,} bytes and {free:,} are free: make room.')
        with open(self._partial, 'wb') as file:
            file.write(header)
            file.seek(len(header) + first)
            file.write(names)
            file.truncate(size)
            if hasattr(os, 'posix_fallocate'):  # a memory map on a full disk ends in SIGBUS
                os.posix_fallocate(file.fileno(), 0, size)
        self._progress.write_bytes(digest + bytes(self.num_batches))

    def missing(self) -> list[int]:
        """The batches that are not written yet."""
        return np.flatnonzero(self._done == 0).tolist()

    def write(self, batch: int, stages: dict[int, np.ndarray], labels: np.ndarray) -> None:
        """Write one batch."""
        rows = slice(batch * self._batch_size, batch * self._batch_size + len(labels))
        for stage, features in stages.items():
            self._rows[stage][rows] = features
        self._labels[rows] = labels
        self._done[batch] = 1

    def finish(self) -> None:
        """Give the file its name; every batch must be written."""
        for array in (*self._rows.values(), self._labels):
            array.flush()
        os.replace(self._partial, self.path)
        self._progress.unlink()


def _header(stages: dict, count: int, path_bytes: int, classes, about: dict) -> bytes:
    shapes = {f'stage{s}': ('F32', [count, dim]) for s, dim in sorted(stages.items())}
    shapes |= {'labels': ('I64', [count]), 'paths': ('U8', [path_bytes])}
    layout: dict = {
        '__metadata__': {
            'format': FORMAT,
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


def _read_header(path: Path) -> tuple[dict, int]:
    """The header of a safetensors file, and where its arrays start."""
    try:
        with open(path, 'rb') as file:
            size = int.from_bytes(file.read(8), 'little')
            if size > _MAX_HEADER:
                raise ValueError(f'its header claims {size} bytes')
            header = json.loads(file.read(size))
        last = max(entry['data_offsets'][1] for key, entry in header.items() if key[0] != '_')
        if path.stat().st_size != 8 + size + last:
            raise ValueError(f'{8 + size + last} bytes expected, {path.stat().st_size} found')
        return header, 8 + size
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f'{path} cannot be read as a feature file: {error}.') from error


def _map(path: Path, entry: dict, start: int, mode: Any) -> Any:
    shape, dtype = tuple(entry['shape']), np.dtype(_DTYPES[entry['dtype']])
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, mode, start + entry['data_offsets'][0], shape)
