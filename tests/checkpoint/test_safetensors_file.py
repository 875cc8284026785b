"""Our reader of safetensors against the library, and headers that lie."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError


def test_tensors_equal_those_of_the_library(tmp_path):
    path = tmp_path / 'a.safetensors'
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    state = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in dtypes}
    state |= {'scalar': torch.tensor(2.5), 'empty': torch.zeros(0, 4), 'cube': torch.rand(2, 3, 4)}
    save_file(state, path, metadata={'a': 'text'})
    ours, theirs = read_checkpoint(path), load_file(path)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name].dtype, ours[name].stride()) == (tensor.dtype, tensor.stride())
        assert torch.equal(ours[name], tensor)


def header(**changes):
    entry = {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8], **changes}
    return json.dumps({'a': entry}).encode()


@pytest.mark.parametrize(
    'text',
    [
        header(shape=[2**60]), header(shape=[-2]), header(shape=[2.0]), header(shape='2'),
        header(shape=[20_000, 0, 3, 3]), header(dtype='F99'), header(dtype=['F32']),
        header(data_offsets=[0, 2**60]), header(data_offsets=[4, 12]), header(data_offsets=[8, 0]),
        header(data_offsets=[0]), header(more=1), b'[]', b'{"a": 1}', b'{', b'\xff',
        b'{"__metadata__": {"a": 1}}', b'{"a":' * 1000 + b'}' * 1000,
        header()[:-1] + b', ' + header()[1:].replace(b'"a"', b'"b"'),
    ],
)  # fmt: skip
def test_headers_that_lie_are_refused(tmp_path, text):
    path = tmp_path / 'a.safetensors'
    path.write_bytes(struct.pack('<Q', len(text)) + text + bytes(8))
    with pytest.raises(UserError, match='not a readable safetensors checkpoint'):
        read_checkpoint(path)
