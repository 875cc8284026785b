"""Read a checkpoint file without running anything that is in it.

What ``torch.save`` writes is read with ``weights_only=True``, always. ``.safetensors`` and
``.onnx`` hold no code; the ``.pkl`` of detectron2 and MoCo, a dict of NumPy arrays, goes through an
unpickler that knows what an array is made of and nothing else.
"""

import contextlib
import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ttl_mm.errors import UserError

MAX_HEADER = 10_000_000  # bytes; the header of a safetensors file with 1,000 tensors has 0.1 MB


class _Discarded:
    """Stands in for a log entry of a training framework: takes any state and keeps none."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass


# What training frameworks put beside the weights. The real classes are never called: each name
# leads to _Discarded, so their content is dropped while the tensors are read.
_DTYPES = ('Float64', 'Float32', 'Int64', 'Int32', 'UInt32', 'UInt8', 'Bool')
_DISCARDED = (
    'mmengine.logging.history_buffer.HistoryBuffer', 'mmengine.config.config.ConfigDict',
    'builtins.getattr',  # how a HistoryBuffer pickles its methods
    'argparse.Namespace', '_codecs.encode', 'numpy.dtype', 'numpy.ndarray',
    'numpy.core.multiarray._reconstruct', 'numpy._core.multiarray._reconstruct',
    'numpy.core.multiarray.scalar', 'numpy._core.multiarray.scalar',
    *(f'numpy.dtypes.{name}DType' for name in _DTYPES),
)  # fmt: skip


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint file as a dict, tensors on the CPU.

    Raises:
        UserError: the file is missing, damaged, hostile, or holds no dict.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f'{path} is not a file: check the path of the checkpoint.')
    readers = {'.safetensors': _read_safetensors, '.pkl': _read_array_pickle, '.onnx': _read_onnx}
    content = readers.get(path.suffix, _read_torch)(path)
    if not isinstance(content, dict):
        raise UserError(
            f'{path} holds a {type(content).__name__}, not a dict of tensors: save the state_dict '
            'of the model instead.'
        )
    return content


def _read_torch(path: Path) -> Any:
    with path.open('rb') as file:
        zipped = file.read(4) == b'PK\x03\x04'  # how torch recognizes an archive
    if zipped:
        _check_archive(path)
    try:
        with _discarding():
            return torch.load(path, map_location='cpu', weights_only=True)
    except Exception as error:  # torch raises a dozen kinds for damaged files
        raise UserError(_reason(path, error)) from error


def _discarding() -> contextlib.AbstractContextManager:
    """Map the names of _DISCARDED to the stand-in while a file is read."""
    if torch.__version__ < '2.6':  # knows no stand-ins: refuses a file with such names
        return contextlib.nullcontext()
    return torch.serialization.safe_globals([(_Discarded, name) for name in _DISCARDED])


def _reason(path: Path, error: Exception) -> str:
    """One sentence out of what torch says about a file it could not load."""
    asked = re.search(r'(?:GLOBAL|function) (?:<.*? )?([\w.]+)', str(error))
    if isinstance(error, pickle.UnpicklingError) and asked:
        return (
            f'{path} is refused: to be read it would have to run or build {asked[1]}. If you '
            'trust its origin, save its state_dict alone in a process of its own.'
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f'{path} is not a readable checkpoint ({first[:200]}): fetch or save it again.'


def _check_archive(path: Path) -> None:
    """Refuse an archive that torch.save did not write: compressed, overlapping or odd entries.

    torch stores its records uncompressed, so all of them together are smaller than the file; a
    zip bomb cannot pass that.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except Exception as error:  # zipfile raises half a dozen kinds
        raise UserError(f'{path} is a damaged archive ({error}): fetch it again.') from error
    for entry in entries:
        parts = entry.filename.split('/')
        if '..' in parts or parts[0] == '' or '\\' in entry.filename:
            raise UserError(f'{path} is refused: it names an entry {entry.filename!r}.')
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise UserError(
                f'{path} is refused: its entry {entry.filename!r} is compressed (to '
                f'{entry.file_size} bytes), which torch.save never does.'
            )
    total, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if total > size:
        raise UserError(f'{path} is refused: its entries claim {total} bytes, the file has {size}.')


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    size = path.stat().st_size
    with path.open('rb') as file:
        header = int.from_bytes(file.read(8), 'little')
    if header > min(MAX_HEADER, size - 8):
        raise UserError(
            f'{path} is refused: its header claims {header} bytes, the file has {size} and '
            f'{MAX_HEADER} are allowed.'
        )
    try:
        return load_file(path)
    except (SafetensorError, ValueError, OSError) as error:
        raise UserError(f'{path} is not a readable safetensors file ({error}).') from error


def _read_onnx(path: Path) -> dict[str, Tensor]:
    """The initializers of a graph under the names of their parameters."""
    try:
        import onnx
    except ImportError as error:
        raise UserError(f"{path} needs onnx to be read: pip install 'ttl-mm[export]'.") from error

    try:
        model = onnx.load(path, load_external_data=False)
        counters = {p.key: p.value for p in model.metadata_props}.get('num_batches_tracked', '{}')
        state = {name: torch.tensor(count) for name, count in json.loads(counters).items()}
        for tensor in model.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise ValueError(f'{tensor.name} lies in another file')
            state[tensor.name] = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        return state
    except Exception as error:  # a damaged protobuf raises anything
        raise UserError(_reason(path, error)) from error


class _ArrayUnpickler(pickle.Unpickler):
    """Knows what a pickled NumPy array is made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if f'{module}.{name}' not in _ARRAY_PARTS:
            raise pickle.UnpicklingError(f'GLOBAL {module}.{name}')
        return _ARRAY_PARTS[f'{module}.{name}']


def _latin1(text: str, encoding: str = 'latin1') -> bytes:
    """How the old pickle protocols spell bytes."""
    return text.encode('latin1')


def _buffer(data: bytes = b'') -> bytearray:
    """``bytearray`` of bytes, and not of a length that a file could choose."""
    return bytearray(memoryview(data))


# private to NumPy, and moved between versions: how old protocols and protocol 5 spell an array
_reconstruct, _frombuffer = (np.empty(0).__reduce_ex__(protocol)[0] for protocol in (2, 5))
_ARRAY_PARTS = {
    'numpy.ndarray': np.ndarray,
    'numpy.dtype': np.dtype,
    'numpy.core.multiarray._reconstruct': _reconstruct,
    'numpy._core.multiarray._reconstruct': _reconstruct,
    'numpy.core.numeric._frombuffer': _frombuffer,
    'numpy._core.numeric._frombuffer': _frombuffer,
    'builtins.bytearray': _buffer,
    'collections.OrderedDict': dict,
    '_codecs.encode': _latin1,
}


def _read_array_pickle(path: Path) -> dict[str, Any]:
    try:
        with path.open('rb') as file:
            content = _ArrayUnpickler(file, encoding='latin1').load()
        arrays = {name: np.asarray(value) for name, value in content.get('model', content).items()}
        odd = [name for name, value in arrays.items() if value.dtype.kind not in 'fiub']
        if odd:
            raise ValueError(f'{odd[0]} is no array of numbers')
        claimed = sum(value.nbytes for value in arrays.values())
        if claimed > path.stat().st_size:
            raise ValueError(f'its arrays claim {claimed} bytes, more than the file has')
        return {'model': {name: torch.from_numpy(a.copy()) for name, a in arrays.items()}}
    except Exception as error:  # a damaged pickle raises anything
        raise UserError(_reason(path, error)) from error
