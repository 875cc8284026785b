"""What ``torch.save`` writes, in its format of today (a zip archive) and of before 2020.

Not read with ``torch.load(weights_only=True)``: that trusts sizes which a file claims, and its list
of allowed names is a setting of the process that any import can extend. Here a storage is exactly
as long as its record, a tensor lies inside its storage, and the table below is all there is.
"""

import math
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from ttl_mm.checkpoint.archive import MAGIC, Archive
from ttl_mm.checkpoint.plain_pickle import Builder, Discarded, checked_key, read_pickle
from ttl_mm.files.regular import size_of

MAX_PICKLE = 2**28  # bytes of the description of a checkpoint; the tensors come on top
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_MAX_DIMS = 25


class Storage(NamedTuple):
    """The bytes of one or several tensors, and the kind of their numbers if it is known."""

    data: Tensor  # (bytes,) uint8
    dtype: torch.dtype | None


class StorageType(NamedTuple):
    """Stands for a class such as ``torch.FloatStorage``."""

    dtype: torch.dtype | None


def read_torch(file: BinaryIO) -> Any:
    """The content of a file of ``torch.save``, tensors on the CPU.

    Raises:
        RefusedNameError: To read it would mean to run or build something.
        Exception: It is damaged; most often a ValueError.
    """
    if file.read(len(MAGIC)) == MAGIC:
        return _read_archive(file)
    return _read_legacy(file)


def _read_archive(file: BinaryIO) -> Any:
    archive = Archive(file)
    mains = [name for name in archive.records if name.partition('/')[2] == 'data.pkl']
    if len(mains) != 1:
        raise ValueError('the archive is not one of torch.save')
    folder = mains[0].removesuffix('data.pkl')
    if f'{folder}constants.pkl' in archive.records:
        raise ValueError('it is a TorchScript program: save the state_dict of the model instead')
    order = f'{folder}byteorder'
    if order in archive.records and archive.read(order, check=True).numpy().tobytes() != b'little':
        raise ValueError('it was written on a big-endian machine')
    if archive.records[mains[0]].size > MAX_PICKLE:
        raise ValueError(f'its description has more than {MAX_PICKLE} bytes')
    storages: dict[str, Storage] = {}

    def load(key: Any) -> Storage:
        kind, name, length = _storage_key(key)
        if name not in storages:
            record = f'{folder}data/{name}'
            if record not in archive.records or archive.records[record].size != length:
                raise ValueError(f'it claims {length} bytes for storage {name[:40]!r}')
            storages[name] = Storage(archive.read(record), kind.dtype)
        return Storage(storages[name].data, kind.dtype)

    return read_pickle(archive.read(mains[0], check=True).numpy().tobytes(), _TABLE, 0, load)[0]


def _read_legacy(file: BinaryIO) -> Any:
    size = size_of(file)
    file.seek(0)
    data = file.read(size)
    magic, position = read_pickle(data, _TABLE)
    if type(magic) is not int or magic != _LEGACY_MAGIC:
        raise ValueError('it was not written by torch.save')
    protocol, position = read_pickle(data, _TABLE, position)
    if type(protocol) is not int or protocol != _LEGACY_PROTOCOL:
        raise ValueError('it was written by an unknown version of torch.save')
    _, position = read_pickle(data, _TABLE, position)
    storages: dict[str, Storage] = {}
    claimed = 0

    def load(key: Any) -> Storage:
        nonlocal claimed
        kind, name, length = _storage_key(key)
        if name not in storages:
            claimed += length
            if claimed > size:
                raise ValueError(f'its tensors claim {claimed} bytes, the file has {size}')
            storages[name] = Storage(torch.empty(length, dtype=torch.uint8), kind.dtype)
        elif len(storages[name].data) != length:
            raise ValueError(f'storage {name[:40]!r} has two sizes')
        return Storage(storages[name].data, kind.dtype)

    content, position = read_pickle(data, _TABLE, position, load)
    names, position = read_pickle(data, _TABLE, position)
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(storages):
        raise ValueError('its list of storages is not complete')
    for name in names:
        target, dtype = storages[name]
        width = dtype.itemsize if dtype else 1
        count = int.from_bytes(data[position : position + 8], 'little')
        position += 8
        if count * width != len(target) or position + len(target) > size:
            raise ValueError(f'storage {name[:40]!r} is cut short')
        if len(target):
            target.numpy().data[:] = memoryview(data)[position : position + len(target)]
        position += len(target)
    return content


def _storage_key(key: Any) -> tuple[StorageType, str, int]:
    """Kind, name and bytes of a storage, from what torch writes in its place."""
    word, kind, name, _, count, *views = key
    known = word == 'storage' and isinstance(kind, StorageType) and isinstance(name, str)
    if not known or type(count) is not int or count < 0 or any(v is not None for v in views):
        raise ValueError('it has a storage that is none')
    return kind, name, count * (kind.dtype.itemsize if kind.dtype else 1)


def _tensor(
    storage: Storage, offset: int, size: tuple, stride: tuple, *more: Any, dtype: Any = None
) -> Tensor:
    """A tensor that lies inside its storage and has no more values than that."""
    dtype = dtype or storage.dtype
    if not isinstance(storage, Storage) or not isinstance(dtype, torch.dtype):
        raise ValueError('it has a tensor without a storage')
    shape = [offset, *size, *stride]
    if any(type(n) is not int or not 0 <= n < 2**48 for n in shape) or len(size) != len(stride):
        raise ValueError(f'it has a tensor of shape {str(size)[:80]}')
    if len(size) > _MAX_DIMS or len(storage.data) % dtype.itemsize:
        raise ValueError(f'it has a tensor of shape {str(size)[:80]}')
    stored, count = len(storage.data) // dtype.itemsize, math.prod(size)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if count else offset - 1
    if last >= stored or offset > stored or count > stored:
        raise ValueError(f'a tensor claims {str(size)[:80]} values, its storage has {stored}')
    memory = storage.data.untyped_storage()
    return torch.empty(0, dtype=dtype).set_(memory, offset, tuple(size), tuple(stride))


def _tensor_v3(storage, offset, size, stride, grad, hooks, dtype, *more) -> Tensor:
    return _tensor(storage, offset, size, stride, dtype=dtype)


def _first_tensor(data: Any, *more: Any) -> Tensor:
    """A parameter is a tensor here."""
    if not isinstance(data, Tensor):
        raise ValueError('it has a parameter without a tensor')
    return data


def _from_type(rebuild: Any, kind: Any, arguments: tuple, *state: Any) -> Any:
    if not isinstance(rebuild, Builder):
        raise ValueError('it has a tensor of an unknown type')
    return rebuild.build(*arguments)


def _mapping(*arguments: Any) -> dict:
    pairs = next((a for a in arguments if isinstance(a, (list, tuple))), ())
    return {checked_key(key): value for key, value in pairs}


def _sequence(*arguments: Any) -> list:
    return list(arguments[0]) if arguments and isinstance(arguments[0], (list, tuple)) else []


def _text_of(*arguments: Any) -> str:
    return ':'.join(str(a)[:20] for a in arguments if isinstance(a, (str, int)))


def latin1(text: str, encoding: str = 'latin1') -> bytes:
    """How the old pickle protocols spell bytes."""
    return text.encode('latin1')


def _discard(*arguments: Any) -> Discarded:
    return Discarded()


_STORAGES = {
    'Double': torch.float64, 'Float': torch.float32, 'Half': torch.float16,
    'BFloat16': torch.bfloat16, 'Long': torch.int64, 'Int': torch.int32, 'Short': torch.int16,
    'Char': torch.int8, 'Byte': torch.uint8, 'Bool': torch.bool,
    'ComplexDouble': torch.complex128, 'ComplexFloat': torch.complex64,
}  # fmt: skip
_DTYPES = [
    *_STORAGES.values(),
    *(getattr(torch, n) for n in ('uint16', 'uint32', 'uint64', 'complex32') if hasattr(torch, n)),
    *(getattr(torch, n) for n in dir(torch) if n.startswith('float8')),
]
# What training frameworks put beside the weights. Nothing of it is called or kept.
_NUMPY_DTYPES = ('Float64', 'Float32', 'Int64', 'Int32', 'UInt32', 'UInt8', 'Bool')
_DISCARDED = (
    'mmengine.logging.history_buffer.HistoryBuffer', 'mmengine.config.config.ConfigDict',
    'builtins.getattr', '__builtin__.getattr',  # how a HistoryBuffer pickles its methods
    'argparse.Namespace', 'numpy.dtype', 'numpy.ndarray',
    'numpy.core.multiarray._reconstruct', 'numpy._core.multiarray._reconstruct',
    'numpy.core.multiarray.scalar', 'numpy._core.multiarray.scalar',
    *(f'numpy.dtypes.{name}DType' for name in _NUMPY_DTYPES),
)  # fmt: skip
_TABLE: Mapping[str, Any] = {
    **{f'torch.{name}Storage': StorageType(dtype) for name, dtype in _STORAGES.items()},
    'torch.storage.UntypedStorage': StorageType(None),
    **{str(dtype): dtype for dtype in _DTYPES},
    'torch._utils._rebuild_tensor': Builder(_tensor),
    'torch._utils._rebuild_tensor_v2': Builder(_tensor),
    'torch._utils._rebuild_tensor_v3': Builder(_tensor_v3),
    'torch._utils._rebuild_parameter': Builder(_first_tensor),
    'torch._utils._rebuild_parameter_with_state': Builder(_first_tensor),
    'torch._tensor._rebuild_from_type_v2': Builder(_from_type),
    'torch.nn.parameter.Parameter': Builder(_first_tensor),
    'torch.Tensor': Discarded(),
    'torch.Size': Builder(lambda size=(): tuple(_sequence(size))),
    'torch.device': Builder(_text_of),
    'collections.OrderedDict': Builder(_mapping),
    'collections.defaultdict': Builder(_mapping),
    'collections.Counter': Builder(_mapping),
    **{f'{module}.{name}': Builder(_sequence)
       for module in ('builtins', '__builtin__') for name in ('set', 'frozenset', 'list')},
    **{f'{module}.{name}': Discarded()
       for module in ('builtins', '__builtin__') for name in ('dict', 'int', 'float', 'str')},
    **{f'{module}.complex': Builder(lambda real=0, imag=0: complex(real, imag))
       for module in ('builtins', '__builtin__')},
    '_codecs.encode': Builder(latin1),
    **{name: Builder(_discard) for name in _DISCARDED},
}  # fmt: skip
