"""What torch.save writes, read by us and by torch.load, and archives that show two contents."""

import io
import struct
import zipfile
from collections import OrderedDict, defaultdict

import pytest
import torch
from torch import nn

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError


def contents(newest=True):
    base = torch.arange(24.0)
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
              torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64)  # fmt: skip
    dtypes += (torch.uint16, torch.float8_e4m3fn) if newest else ()
    state = OrderedDict((str(dtype), torch.arange(6).reshape(2, 3).to(dtype)) for dtype in dtypes)
    state.update(
        scalar=torch.tensor(3), empty=torch.zeros(0, 3), parameter=nn.Parameter(torch.ones(2)),
        transposed=base.view(4, 6).t(), part=base[5:9], same=base, views=base.view(2, 3, 4),
    )  # fmt: skip
    state._metadata = {'': {'version': 1}}
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    rest = {'size': torch.Size([1, 2]), 'dtype': torch.float16, 'numbers': (1, 2.5, None, 2**40)}
    return {'state_dict': state, 'optimizer': optimizer.state_dict(), **rest}


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        plain = [t.float() if t.dtype.itemsize == 1 else t for t in (ours, theirs)]
        return (
            ours.dtype == theirs.dtype and ours.stride() == theirs.stride() and torch.equal(*plain)
        )
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


@pytest.fixture
def saved(tmp_path):
    torch.save(contents(), tmp_path / 'a.pth')
    return tmp_path / 'a.pth'


def test_content_equals_that_of_torch_load(saved):
    for zipped in (True, False):
        content = contents(newest=zipped)  # torch cannot read its newest types in old files
        torch.save(content, saved, _use_new_zipfile_serialization=zipped)
        ours, theirs = read_checkpoint(saved), torch.load(saved, weights_only=True)
        assert same(ours, theirs)
        ours['state_dict']['same'][6] = -1  # which two others share
        assert ours['state_dict']['part'][1] == ours['state_dict']['views'][0, 1, 2] == -1


def test_what_torch_would_refuse_or_call_becomes_plain(saved):
    torch.save({'a': defaultdict(list, b=[1]), 'c': {3}, 'd': complex(1, 2)}, saved)
    assert read_checkpoint(saved) == {'a': {'b': [1]}, 'c': [3], 'd': complex(1, 2)}


def test_a_second_directory_is_refused(saved, tmp_path):
    """Python's zipfile reads the zip64 end before the locator, torch the one it points to."""
    raw = saved.read_bytes()
    end = raw.rindex(b'PK\x05\x06')
    first = raw[: end - 76]
    record, locator, last = raw[end - 76 : end - 20], raw[end - 20 : end], raw[end:]
    for data in (
        first + record + record + locator + last,  # the locator points to the first of two
        first + record[:32] + struct.pack('<Q', 1) + record[40:] + locator + last,
        first + record + locator[:8] + struct.pack('<Q', 0) + locator[16:] + last,
        first + record + locator + last[:10] + b'\x01\x00' + last[12:],
        first + bytes(10) + record + locator + last,
        raw + last,
    ):
        (tmp_path / 'two.pth').write_bytes(data)
        with pytest.raises(UserError, match='archive'):
            read_checkpoint(tmp_path / 'two.pth')
    saved.write_bytes(raw + b'\n{"a line": "behind the archive"}\n')
    read_checkpoint(saved)


def rebuilt(raw: bytes, **changes) -> bytes:
    """The archive with other contents for some of its records."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(stream, 'w') as new:
        for info in old.infolist():
            last = info.filename.rpartition('/')[2].replace('.', '_')
            new.writestr(info.filename, changes.get(last, old.read(info)))
    return stream.getvalue()


def test_claims_are_compared_with_what_is_there(tmp_path):
    path = tmp_path / 'a.pth'
    torch.save({'a': torch.ones(3, 2)}, path)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        (pickled,) = (archive.read(n) for n in archive.namelist() if n.endswith('data.pkl'))
    assert pickled.count(b'K\x06') == 1
    changes = {
        'a storage of other length': pickled.replace(b'K\x06', b'K\x07'),
        'a huge storage': pickled.replace(b'K\x06', b'J\xff\xff\xff\x7f'),
        'a negative storage': pickled.replace(b'K\x06', b'J\xff\xff\xff\xff'),
        'more rows': pickled.replace(b'K\x03K\x02\x86', b'K\x04K\x02\x86'),
        'a long stride': pickled.replace(b'K\x02K\x01\x86', b'K\x09K\x01\x86'),
        'one value many times': pickled.replace(b'K\x03K\x02\x86', b'M\xff\xffK\x02\x86').replace(
            b'K\x02K\x01\x86', b'K\x00K\x00\x86'),
        'an offset': pickled.replace(b'QK\x00', b'QK\x01'),
        'no storage': pickled.replace(b'Q', b'0N'),
        'sparse': pickled.replace(b'_rebuild_tensor_v2', b'_rebuild_sparse_tensor'),
    }  # fmt: skip
    for name, data in changes.items():
        assert data != pickled, name
        path.write_bytes(rebuilt(raw, data_pkl=data))
        with pytest.raises(UserError, match=r'a\.pth'):
            read_checkpoint(path)
    path.write_bytes(rebuilt(raw))
    assert read_checkpoint(path)['a'].shape == (3, 2)
    path.write_bytes(rebuilt(raw, byteorder=b'big'))
    with pytest.raises(UserError, match='big-endian'):
        read_checkpoint(path)
    damaged = bytearray(raw)
    damaged[raw.index(b'cpuq') + 1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r'data\.pkl.* is damaged'):
        read_checkpoint(path)


def test_old_files_that_lack_a_storage_or_claim_too_much_are_refused(tmp_path):
    path = tmp_path / 'a.pth'
    torch.save({'a': torch.ones(3, 2)}, path, _use_new_zipfile_serialization=False)
    raw = path.read_bytes()
    list_of_names = raw.rindex(b']q\x00')
    cases = {
        raw[:-3]: 'cut short',
        raw.replace(b'K\x06N', b'J\xff\xff\xff\x7fN'): 'claim',
        raw[:list_of_names] + b'].' + raw[list_of_names + 2 :]: 'list of storages',
        b'K\x01.' + raw: 'not written by torch.save',
    }
    for data, message in cases.items():
        path.write_bytes(data)
        with pytest.raises(UserError, match=message):
            read_checkpoint(path)


def test_a_file_that_holds_itself_and_odd_tensors_end_in_a_sentence(tmp_path):
    from ttl_mm.checkpoint.load import load_backbone_state

    loop: dict = {'a': torch.ones(1)}
    loop['state_dict'] = loop
    torch.save(loop, tmp_path / 'loop.pth')
    block = {'conv1.weight': torch.ones(1), 'layer1.0.conv1.weight': torch.ones(1)}
    odd = {
        'loop': loop,
        'scalar': {**block, 'conv1.weight': torch.tensor(1.0)},
        'nan': {**block, 'conv1.bias': torch.tensor([float('nan')])},
        'complex nan': {**block, 'conv1.bias': torch.tensor([complex(0, float('nan'))])},
        'float8 nan': {**block, 'conv1.bias': torch.tensor([float('nan')]).to(torch.float8_e4m3fn)},
        'variance': {**block, 'bn1.running_var': torch.tensor([-1.0])},
        'sparse': {**block, 'conv1.bias': torch.ones(2).to_sparse()},
        'meta': {**block, 'conv1.bias': torch.ones(2, device='meta')},
    }
    for name, content in odd.items():
        torch.save(content, tmp_path / 'odd.pth')
        if name == 'scalar':
            assert load_backbone_state(tmp_path / 'odd.pth')
            continue
        with pytest.raises(UserError, match=r'odd\.pth'):
            load_backbone_state(tmp_path / 'odd.pth')
