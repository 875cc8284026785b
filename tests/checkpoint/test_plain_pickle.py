"""The reader of pickles against Python's own, and against files that attack it."""

import io
import pickle
import struct
import time
import tracemalloc
from collections import OrderedDict

import pytest

from ttl_mm.checkpoint.plain_pickle import (
    Builder,
    Discarded,
    RefusedNameError,
    StandIn,
    read_pickle,
)

TABLE = {
    'collections.OrderedDict': Builder(lambda pairs=(): dict(pairs)),
    'builtins.set': Builder(list),
    '__builtin__.set': Builder(list),
    'any.Thing': Discarded(),
}
CONTENT = {
    'numbers': [0, 1, 255, 256, 65536, -1, 2**31, 2**70, -(2**70), 1.5, float('inf'), True, False],
    'text': ['', 'a', 'ü€😀', 'x' * 300, 'y' * 70_000],
    'nested': ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {'a': {'b': [None]}}, [[], {}]),
    'ordered': OrderedDict(a=1, b=2),
    3: 'an integer as a key',
    None: 'none as a key',
}


def test_values_of_every_protocol_equal_those_of_pickle():
    shared = ['shared']
    content = {**CONTENT, 'twice': [shared, shared]}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = b'before' + pickle.dumps(content, protocol) + b'after'
        found, end = read_pickle(data, TABLE, 6)
        assert found == content, protocol
        assert data[end:] == b'after'
        assert found['twice'][0] is found['twice'][1]
    for protocol in (3, 4, 5):
        data = pickle.dumps([b'a', b'b' * 300, bytearray(b'c')], protocol)
        found, _ = read_pickle(data, {'builtins.bytearray': Builder(bytes)})
        assert [bytes(item) for item in found] == [b'a', b'b' * 300, b'c']
    assert read_pickle(pickle.dumps({1, 2}, 2), TABLE)[0] == [1, 2]
    assert read_pickle(pickle.dumps({1, 2}, 4), TABLE)[0] == [1, 2]


def test_persistent_ids_and_stand_ins_come_to_the_caller():
    class Keeper(StandIn):
        def set_state(self, state):
            self.state = state

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return ('id', 1) if obj == 'outside' else None

    stream = io.BytesIO()
    Pickler(stream, 2).dump(['outside', 'inside'])
    assert read_pickle(stream.getvalue(), TABLE, 0, lambda key: key)[0] == [
        ('id', 1),
        'inside',
    ]
    with pytest.raises(ValueError, match='outside of itself'):
        read_pickle(stream.getvalue(), TABLE)
    data = b'cany\nKeeper\n)\x81}X\x01\x00\x00\x00aK\x01sb.'
    found, _ = read_pickle(data, {'any.Keeper': Builder(Keeper)})
    assert found.state == {'a': 1}
    # of what is discarded, items, calls and states lead nowhere
    found, _ = read_pickle(b'cany\nThing\n)RK\x01aK\x01K\x02s)R}b.', TABLE)
    assert isinstance(found, Discarded)


def test_names_outside_of_the_table_are_refused():
    class Evil:
        def __reduce__(self):
            return print, ('ran',)

    for protocol in range(6):
        with pytest.raises(RefusedNameError, match=r'asks for .*builtin.*print'):
            read_pickle(pickle.dumps(Evil(), protocol), TABLE)
    for data in (
        b'(S"ran"\nios\nsystem\n.',
        b'(cos\nsystem\nS"ran"\no.',
        b'\x8c\x02os\x8c\x06system\x93.',
    ):
        with pytest.raises(RefusedNameError, match=r'os\.system'):
            read_pickle(data, TABLE)


ATTACKS = {
    'a length beyond the file': b'X\xff\xff\xff\x7fabc.',
    'a length of 2**63': b'\x8e' + struct.pack('<Q', 2**63) + b'.',
    'a negative length': b'T\xff\xff\xff\xffabc.',
    'a frame beyond the file': b'\x95\xff.',
    'an endless integer': b'\x8b' + struct.pack('<i', 10**6) + bytes(10**6) + b'.',
    'an endless decimal': b'I' + b'1' * 10**6 + b'\n.',
    'a name of 40 kB': b'c' + b'a' * 40_000 + b'\n' + b'b' * 40_000 + b'\n.',
    'a list as a key': b'}](K\x01tK\x02s.',
    'nested tuples as a key': b'}' + b')' + b'2\x86' * 200 + b'K\x01s.',
    'a float as a key': b'}G' + bytes(8) + b'K\x01s.',
    'integers that collide': b'}\x8a\x08' + struct.pack('<Q', 2**61 - 1) + b'K\x01s.',
    'a call of a number': b'K\x01)R.',
    'a call without a tuple': b'ccollections\nOrderedDict\nK\x01R.',
    'the state of a list': b']}b.',
    'an item of a number': b'K\x01K\x01a.',
    'a memo that is empty': b'h\x00.',
    'marks that do not match': b't.',
    'an empty stack': b'.',
    'an extension code': b'\x82\x01.',
    'a buffer outside of the file': b'\x97.',
    'an end too early': b'K\x01',
    'keywords': b'ccollections\nOrderedDict\n)}X\x01\x00\x00\x00aK\x01s\x92.',
}


@pytest.mark.parametrize('name', ATTACKS)
def test_attacks_end_in_an_error_at_once(name):
    used = time.process_time()
    with pytest.raises((ValueError, TypeError, IndexError, KeyError)):
        read_pickle(ATTACKS[name], TABLE)
    assert time.process_time() - used < 1  # of the processor: no other work makes it more


@pytest.mark.parametrize(
    'value',
    [
        b'](' + b'N' * 200_000 + b'e',
        b'](' + b'N' * 200_000 + b'e\x85',  # inside of a tuple
        b'X' + struct.pack('<I', 10**5) + b'a' * 10**5,
    ],
)
def test_one_value_that_is_copied_again_and_again_does_not_fill_the_memory(value):
    call = b'c__builtin__\nset\nq\x010]('
    copies = value + b'q\x000' + call + b'h\x01h\x00\x85R' * 20_000 + b'e.'
    tracemalloc.start()
    with pytest.raises(ValueError, match='copies its parts again and again'):
        read_pickle(copies, TABLE)
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


def test_large_places_in_the_memo_and_shared_lists_take_no_memory():
    found, _ = read_pickle(b']r\xff\xff\xff\x7fj\xff\xff\xff\x7f\x86.', TABLE)
    assert found == ([], [])
    found, _ = read_pickle(b']' + b'2\x86' * 100 + b'.', TABLE)  # 2**100 leaves if expanded
    assert len(found) == 2


def test_a_program_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr('ttl_mm.checkpoint.plain_pickle.MAX_STEPS', 1000)
    with pytest.raises(ValueError, match='more than 1000 instructions'):
        read_pickle(b'N' * 2000 + b'.', TABLE)
