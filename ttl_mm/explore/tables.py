"""Features in tables of other tools: ``.npy`` with a list of paths, ``.csv`` and ``.parquet``.

A table may come from a stranger: it is opened as any file, its numbers are checked, and whatever is
wrong with it is one sentence.
"""

import csv
import os
from collections.abc import Sequence
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.files.plain_npy import map_npy
from ttl_mm.files.regular import FEATURES, NAMES, open_regular, read_bytes, size_of

SIZES = ('bytes', 'width', 'height')
TABLES = ('.npy', '.csv', '.parquet')
FORMATS = ('.safetensors', *TABLES)
REMEDY = 'make one with `ttl embed IMAGES --weights FILE`'
MAX_RATIO = 100  # times its size that a parquet file may unpack to
FEW = 2**22  # values that it may have in any case
MAX_NAME = 4096  # characters of a path
_TEXT: Any = {'newline': '', 'encoding': 'utf-8', 'errors': 'surrogateescape'}


def check_format(path: Path) -> None:
    """Refuse an ending that has no format, before anything is computed."""
    if path.suffix not in FORMATS:
        raise UserError(f'{path}: the ending must be one of {", ".join(FORMATS)}.')
    if path.suffix == '.parquet':
        _pyarrow()


def read_table(path: Path) -> tuple[np.ndarray, list[str]]:
    """The features (N, D) and the paths of N images.

    Raises:
        UserError: It is no such table, or damaged.
    """
    readers = {'.npy': _read_npy, '.csv': _read_csv, '.parquet': _read_parquet}
    if path.suffix not in readers:
        raise UserError(f'{path} is no file of embeddings: {REMEDY}.')
    try:
        with open_regular(path, FEATURES) as file:
            features, paths = readers[path.suffix](path, file)
        return _checked(features), _names(paths, len(features))
    except OSError as error:
        name = error.filename or path  # the list of paths beside it, for instance
        raise UserError(f'{name} cannot be read: {error.strerror or error}.') from error
    except UserError:
        raise
    except Exception as error:  # a damaged table raises anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f'{path} is no table of features ({reason[:200]}): {REMEDY}.') from error


def _checked(features: np.ndarray) -> np.ndarray:
    if features.ndim != 2 or features.shape[1] == 0 or features.dtype.kind != 'f':
        raise ValueError(f'it has numbers of kind {features.dtype} and shape {features.shape}')
    step = max(1, 2**20 // features.shape[1])
    for start in range(0, len(features), step):
        if not np.isfinite(features[start : start + step]).all():
            raise ValueError('it has features that are not finite')
    return features


def _names(paths: Sequence[Any], rows: int) -> list[str]:
    if len(paths) != rows or not all(isinstance(path, str) for path in paths):
        raise ValueError(f'it has {rows} rows of features and {len(paths)} paths')
    return list(paths)


def write_table(
    path: Path, names: Sequence[str], sizes: np.ndarray, points: np.ndarray, features: np.ndarray
) -> None:
    """Write a table in the format that the ending of ``path`` names.

    A row has the path, the sizes (3,): bytes, width and height, the place on the map (2,) and the
    features (D,). A parquet file can be opened by ``embedding-atlas FILE --x x --y y``.
    """
    if path.suffix == '.npy':
        np.save(path, features)
        _list_beside(path).write_bytes(b''.join(os.fsencode(name) + b'\n' for name in names))
    elif path.suffix == '.csv':
        _write_csv(path, names, sizes, points, features)
    else:
        _write_parquet(path, names, sizes, points, features)


def _list_beside(path: Path) -> Path:
    return path.with_suffix('.paths.txt')


def _read_npy(path: Path, file: BinaryIO) -> tuple[np.ndarray, list[str]]:
    lines = read_bytes(_list_beside(path), NAMES).split(b'\n')
    return map_npy(file), [os.fsdecode(line) for line in lines[:-1]]  # each line has an end


def _write_csv(path: Path, names, sizes, points, features) -> None:
    with path.open('w', **_TEXT) as file:
        writer = csv.writer(file)
        columns = (f'f{i}' for i in range(features.shape[1]))
        writer.writerow(['path', *SIZES, 'x', 'y', *columns])
        for name, size, (x, y), row in zip(names, sizes, points, features):
            writer.writerow([name, *size, f'{x:.6g}', f'{y:.6g}', *(f'{v:.9g}' for v in row)])


def _read_csv(path: Path, file: BinaryIO) -> tuple[np.ndarray, list[str]]:
    with TextIOWrapper(file, **_TEXT) as text:
        header, *rows = csv.reader(text)
    if 'path' not in header or 'f0' not in header:
        raise UserError(f'{path} has no columns path, f0, f1, ...: it is no table of `ttl embed`.')
    first, name = header.index('f0'), header.index('path')
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f'it has a row that has not {len(header)} values')
    features = np.array([[float(v) for v in row[first:]] for row in rows], np.float32)
    return features.reshape(len(rows), len(header) - first), [row[name] for row in rows]


def _write_parquet(path: Path, names, sizes, points, features) -> None:
    arrow, parquet = _pyarrow()
    flat = arrow.array(np.ascontiguousarray(features, np.float32).ravel())
    columns = {
        'path': [os.fsencode(name).decode('utf-8', 'backslashreplace') for name in names],
        **dict(zip(SIZES, np.asarray(sizes).T)), 'x': points[:, 0], 'y': points[:, 1],
        'embedding': arrow.FixedSizeListArray.from_arrays(flat, features.shape[1]),
    }  # fmt: skip
    parquet.write_table(arrow.table(columns), path)


def _read_parquet(path: Path, file: BinaryIO) -> tuple[np.ndarray, list[str]]:
    arrow, parquet = _pyarrow()
    size = size_of(file)
    opened = parquet.ParquetFile(file, read_dictionary=['path'])
    kind, rows = opened.schema_arrow.field('embedding').type, opened.metadata.num_rows
    if not arrow.types.is_fixed_size_list(kind):  # others could hold any number in one row
        raise ValueError(f'its embedding is of type {kind}, and not a list of fixed size')
    most = max(MAX_RATIO * size // 4, FEW)
    if rows * (kind.list_size + 1) > most:  # a few bytes can stand for billions
        raise ValueError(f'it claims {rows} rows in {size} bytes')
    table = opened.read(['path', 'embedding'])
    numbers = table['embedding'].combine_chunks().flatten()
    names: list[str] = []
    for chunk in table['path'].chunks:
        known = chunk.dictionary.to_pylist()
        if any(isinstance(name, str) and len(name) > MAX_NAME for name in known):
            raise ValueError(f'it has a path of more than {MAX_NAME} characters')
        names += [known[i] for i in chunk.indices.to_pylist()]
    array = numbers.to_numpy(zero_copy_only=False).astype(np.float32)
    return array.reshape(-1, kind.list_size), names


def _pyarrow() -> tuple[Any, Any]:
    if not find_spec('pyarrow'):
        raise UserError('parquet files need pyarrow: `pip install pyarrow`, or choose .csv.')
    import pyarrow
    import pyarrow.parquet

    return pyarrow, pyarrow.parquet
