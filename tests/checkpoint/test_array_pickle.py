"""Arrays of a pickle against NumPy's own, and the attacks that NumPy does not survive."""

import pickle
import struct

import numpy as np
import pytest
import torch

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError

RNG = np.random.default_rng(0)
ARRAYS = {
    **{kind: RNG.integers(0, 2, (2, 3)).astype(kind)
       for kind in ('f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', '?', '>f4', '>i8')},
    'fortran': np.asfortranarray(RNG.random((3, 4))),
    'part': RNG.random((4, 4))[::2, 1:],
    'scalar': np.array(2.5),
    'number': np.float32(1.5),
    'empty': np.zeros((0, 3)),
    'plain': 3,
}  # fmt: skip


def test_arrays_of_every_protocol_equal_those_of_numpy(tmp_path):
    path = tmp_path / 'a.pkl'
    for protocol in range(6):
        for content in ({'model': ARRAYS, '__author__': 'x'}, ARRAYS):
            path.write_bytes(pickle.dumps(content, protocol))
            found = read_checkpoint(path)['model']
            for name, array in ARRAYS.items():
                expected = np.asarray(array)
                assert found[name].shape == expected.shape
                np.testing.assert_array_equal(found[name].numpy(), expected)
    path.write_bytes(pickle.dumps(ARRAYS).replace(b'multiarray', b'multiarra'))
    with pytest.raises(UserError):  # the length of the name is wrong now
        read_checkpoint(path)


def state_of(shape, dtype, fortran, data, kind=b'\x8c\x05numpy\x8c\x05dtype\x93'):
    """A pickle that rebuilds an array as NumPy does, from a state of the attacker's choice."""
    name = b'\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93'
    raw = b'B' + struct.pack('<I', len(data)) + data
    return (
        b'\x80\x04}\x8c\x01w' + name + b'\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01b\x87R'
        + b'(K\x01' + shape + kind + b'\x8c' + bytes([len(dtype)]) + dtype + b'\x89\x88\x87R'
        + fortran + raw + b'tbs.'
    )  # fmt: skip


ATTACKS = {
    'objects as addresses': state_of(b'K\x01\x85', b'O8', b'\x89', struct.pack('<Q', 0xDEADBEEF)),
    'more values than bytes': state_of(b'M\xff\xff\x85', b'f4', b'\x89', bytes(4)),
    'a negative shape': state_of(b'J\xff\xff\xff\xff\x85', b'f4', b'\x89', bytes(4)),
    'a shape of 2**62': state_of(b'\x8a\x08' + bytes(7) + b'\x40\x85', b'f4', b'\x89', b''),
    'a structured dtype': state_of(b'K\x01\x85', b'V8', b'\x89', bytes(8)),
    'text': state_of(b'K\x01\x85', b'U2', b'\x89', bytes(8)),
    'long doubles': state_of(b'K\x01\x85', b'f16', b'\x89', bytes(16)),
    'a list as a shape': state_of(b']', b'f4', b'\x89', bytes(4)).replace(b'f4', b'f9'),
    'a place in the memo of 2**31': b'\x80\x02Nr\xff\xff\xff\x7f.',
    'nested lists': b'\x80\x02}X\x01\x00\x00\x00w]' + b'2\x86' * 100 + b's.',
    'many marks': b'(' * 10_000 + b'.',
}  # fmt: skip


@pytest.mark.parametrize('name', ATTACKS)
def test_attacks_on_numpy_end_in_a_sentence(tmp_path, name):
    path = tmp_path / 'a.pkl'
    path.write_bytes(ATTACKS[name])
    with pytest.raises(UserError, match=r'a\.pkl'):
        read_checkpoint(path)


def test_the_pickle_of_the_attacks_is_a_good_one_where_it_is_honest(tmp_path):
    path = tmp_path / 'a.pkl'
    path.write_bytes(state_of(b'K\x02\x85', b'f4', b'\x89', np.float32([1, 2]).tobytes()))
    assert torch.equal(read_checkpoint(path)['model']['w'], torch.tensor([1.0, 2.0]))


def test_one_array_under_many_names_cannot_exceed_the_file(tmp_path):
    array = np.zeros(1000)
    (tmp_path / 'a.pkl').write_bytes(pickle.dumps({f'{i}': array for i in range(100)}))
    with pytest.raises(UserError, match='more than the file has'):
        read_checkpoint(tmp_path / 'a.pkl')
