"""Read a checkpoint file without running anything that is in it.

Pickles, which ``torch.save``, detectron2 and MoCo write, go through a reader of our own
(:mod:`ttl_mm.checkpoint.plain_pickle`). ``.safetensors`` and ``.onnx`` hold no code. The file is
opened once, as :func:`~ttl_mm.files.regular.open_regular` does, and what was checked is what is
read.
"""

from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ttl_mm.checkpoint.array_pickle import read_array_pickle
from ttl_mm.checkpoint.plain_pickle import RefusedNameError, checked_key
from ttl_mm.checkpoint.safetensors_file import read_safetensors
from ttl_mm.checkpoint.torch_file import read_torch
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import WEIGHTS, open_regular, size_of

MAX_ONNX = 2**31  # bytes, the limit of protobuf


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint file as a dict, tensors on the CPU.

    Raises:
        UserError: the file is missing, damaged, hostile, or holds no dict.
    """
    path = Path(path)
    readers = {'.safetensors': read_safetensors, '.pkl': read_array_pickle, '.onnx': _read_onnx}
    read = readers.get(path.suffix, read_torch)
    try:
        with open_regular(path, WEIGHTS) as file:
            content = read(file)
    except OSError as error:
        reason = 'not a file' if isinstance(error, FileNotFoundError) else error.strerror
        raise UserError(f'{path} is {reason}: check the path of the checkpoint.') from error
    except UserError:
        raise
    except Exception as error:  # a damaged file raises anything
        raise UserError(_reason(path, error)) from error
    if not isinstance(content, dict):
        raise UserError(
            f'{path} holds a {type(content).__name__}, not a dict of tensors: save the state_dict '
            'of the model instead.'
        )
    return content


def _reason(path: Path, error: Exception) -> str:
    """One sentence about a file that could not be read."""
    if isinstance(error, RefusedNameError):
        return (
            f'{path} is refused: to be read it would have to run or build {error.name}. If you '
            'trust its origin, save its state_dict alone in a process of its own.'
        )
    if isinstance(error, MemoryError):
        return f'{path} does not fit into the memory of this machine.'
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if first.startswith('refused: '):
        return f'{path} is {first}.'
    kind = f'{path.suffix[1:]} ' if path.suffix in ('.safetensors', '.onnx') else ''
    return f'{path} is not a readable {kind}checkpoint ({first[:200]}): fetch or save it again.'


def _read_onnx(file: BinaryIO) -> dict[str, Tensor]:
    """The initializers of a graph under the names of their parameters."""
    try:
        import onnx
    except ImportError as error:
        raise UserError("onnx is needed to read it: pip install 'ttl-mm[export]'.") from error

    if size_of(file) > MAX_ONNX:
        raise ValueError(f'it has {size_of(file)} bytes, {MAX_ONNX} are allowed')
    model = onnx.load_model_from_string(file.read(size_of(file)))
    counters = {p.key: p.value for p in model.metadata_props}.get('num_batches_tracked', '{}')
    state = {checked_key(n): torch.tensor(int(c)) for n, c in parse_json(counters).items()}
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f'{tensor.name[:100]} lies in another file')
        state[tensor.name] = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
    return state
