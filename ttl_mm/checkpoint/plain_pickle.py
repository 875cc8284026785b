"""A reader of pickles that can build plain containers, and what its caller allows by name.

A pickle is a program for a small stack machine. Python's own machine imports and calls whatever the
program names, and hands its numbers to C code that trusts them: NumPy's ``__setstate__`` reads and
writes memory at addresses of the file's choice. This one is written for files of strangers:

- A name leads to a function or value of the caller's table, or the file is refused.
- A length is compared with the bytes that are there before anything is made.
- Keys of a dict are text, small integers, booleans or None. Keys of other kinds can be chosen such
  that the dict takes hours to fill.
- A program has at most :data:`MAX_STEPS` instructions. Each of them makes one small object at most,
  or a copy of its arguments. All arguments together are at most :data:`CALLS` times as large as the
  file: one long text that is copied a million times would fill the memory.

It knows the instructions that pickle protocols 0 to 5 use for data; those for code objects,
extension codes and out-of-band buffers are refused.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

MAX_STEPS = 2**22
MAX_NAME = 256  # characters of a name to import
MAX_INTEGER = 1024  # bytes of an integer
CALLS = 4  # through which the bytes of an array may go: text to bytes, to a buffer, to the array
MAX_KEY = 2**31  # the largest integer that is a key
_SHORT = 64  # characters that are not counted, items of a tuple that are looked into
Table = Mapping[str, Any]  # 'module.name' -> a Builder, or a value that stands for the name


class RefusedNameError(ValueError):
    """A pickle that asks for a name which is not in the table."""

    def __init__(self, name: str) -> None:
        super().__init__(f'it asks for {name}')
        self.name = name


class Builder:
    """What takes the place of a function or class: ``build`` gets the arguments of the call."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build


class StandIn:
    """What takes the place of an object; ``set_state`` gets the state that a pickle gives it."""

    def set_state(self, state: Any) -> None:
        """Ignore the state."""


class Discarded(StandIn):
    """Stands for an object that nobody needs: takes any call, item or state and keeps none."""


def read_pickle(
    data: bytes, table: Table, start: int = 0, load_persistent: Callable[[Any], Any] | None = None
) -> tuple[Any, int]:
    """The value of the pickle in ``data`` from ``start`` on, and where it ends.

    Args:
        data: Bytes that contain a pickle.
        table: What each name in it stands for.
        start: Where the pickle starts.
        load_persistent: Makes a value of an id that the pickle calls persistent.

    Raises:
        RefusedNameError: It asks for a name that is not in the table.
        ValueError, TypeError, KeyError, IndexError: It is damaged.
    """
    machine = _Machine(data, start, table, load_persistent)
    dispatch, size = _INSTRUCTIONS, len(data)
    for _ in range(MAX_STEPS):
        position = machine.position
        if position >= size:
            raise ValueError('it ends in the middle of a pickle')
        code = data[position]
        machine.position = position + 1
        if code == _STOP:
            return machine.stack.pop(), machine.position
        if code not in dispatch:
            raise ValueError(f'it has the unknown instruction {bytes([code])!r}')
        dispatch[code](machine)
    raise ValueError(f'it has more than {MAX_STEPS} instructions')


class _Machine:
    """The stack machine: what is read, the stack, the stacks below each mark, the memo."""

    def __init__(self, data: bytes, start: int, table: Table, load_persistent) -> None:
        self.data, self.position = data, start
        self.view = memoryview(data)
        self.table, self.load_persistent = table, load_persistent
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.left_bytes, self.left_items = CALLS * len(data), MAX_STEPS  # that calls may still get

    def take(self, length: int) -> int:
        """Pass over ``length`` bytes, which must be there; returns where they start."""
        start = self.position
        if not 0 <= length <= len(self.data) - start:
            raise ValueError(f'it claims {length} bytes and has {len(self.data) - start}')
        self.position = start + length
        return start

    def byte(self) -> int:
        return self.data[self.take(1)]

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack_from(self.data, self.take(layout.size))[0]

    def line(self, limit: int, encoding: str = 'utf-8') -> str:
        """The text up to the next line end."""
        end = self.data.find(b'\n', self.position, self.position + limit + 1)
        if end < 0:
            raise ValueError(f'it has a line of more than {limit} bytes')
        text = self.data[self.position : end].decode(encoding)
        self.position = end + 1
        return text

    def text(self, length: int, encoding: str = 'utf-8') -> None:
        start = self.take(length)
        errors = 'surrogatepass' if encoding == 'utf-8' else 'strict'
        self.stack.append(str(self.view[start : start + length], encoding, errors))

    def binary(self, length: int) -> None:
        start = self.take(length)
        self.stack.append(self.view[start : start + length])

    def integer(self, length: int) -> None:
        if length > MAX_INTEGER:
            raise ValueError(f'it has an integer of {length} bytes')
        start = self.take(length)
        self.stack.append(int.from_bytes(self.data[start : start + length], 'little', signed=True))

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def name(self, name: str) -> None:
        if len(name) > MAX_NAME:
            raise ValueError(f'it asks for a name of {len(name)} characters')
        if name not in self.table:
            raise RefusedNameError(name)
        self.stack.append(self.table[name])

    def tuple_of(self, length: int) -> None:
        if len(self.stack) < length:
            raise ValueError('its stack is empty')
        split = len(self.stack) - length
        self.stack[split:] = [tuple(self.stack[split:])]

    def call(self, arguments: Any) -> None:
        builder = self.stack.pop()
        if isinstance(builder, Discarded):
            self.stack.append(Discarded())
        elif not isinstance(builder, Builder) or not isinstance(arguments, tuple):
            raise ValueError(f'it calls a {type(builder).__name__}')
        else:
            self.charge(arguments)
            self.stack.append(builder.build(*arguments))

    def charge(self, arguments: Any, depth: int = 3) -> None:
        """Count what a call gets, also inside of short tuples and lists."""
        for value in arguments:
            if isinstance(value, int):  # most are
                continue
            if isinstance(value, (str, bytes, memoryview)):
                self.left_bytes -= len(value) if len(value) > _SHORT else 0
            elif isinstance(value, (tuple, list, dict)):
                self.left_items -= len(value)
                if len(value) <= _SHORT and depth and not isinstance(value, dict):
                    self.charge(value, depth - 1)
        if self.left_bytes < 0 or self.left_items < 0:
            raise ValueError('it copies its parts again and again')

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, StandIn):
            target.set_state(state)
        elif not isinstance(target, dict):  # of an OrderedDict the state is its attributes
            raise ValueError(f'it sets the state of a {type(target).__name__}')

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif not isinstance(target, Discarded):
            raise ValueError(f'it appends to a {type(target).__name__}')

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(zip(map(checked_key, items[::2]), items[1::2], strict=True))
        elif not isinstance(target, Discarded):
            raise ValueError(f'it sets an item of a {type(target).__name__}')

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def persistent(self, key: Any) -> None:
        if self.load_persistent is None:
            raise ValueError('it refers to something outside of itself')
        self.stack.append(self.load_persistent(key))


def checked_key(key: Any) -> Any:
    """A value that may be a key of a dict."""
    if isinstance(key, str) or key is None or (isinstance(key, int) and abs(key) < MAX_KEY):
        return key
    raise ValueError(f'it has a key of a dict that is a {type(key).__name__}')


def _decimal(text: str) -> int | bool:
    if text in ('00', '01'):  # how protocol 0 spells False and True
        return text == '01'
    text = text.removesuffix('L')
    if len(text) > 2 * MAX_INTEGER or not text.removeprefix('-').isdecimal():
        raise ValueError('it has a number that is none')
    return int(text)


_U2, _U4, _U8 = (struct.Struct(f'<{letter}') for letter in 'HIQ')
_I4, _F8 = struct.Struct('<i'), struct.Struct('>d')
_STOP = ord('.')


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(value)


def _number(layout: struct.Struct) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(m.number(layout))


def _string(m: _Machine) -> None:
    """A quoted string of protocol 0; none of the data files of today has an escape in it."""
    text = m.line(2**16)
    if len(text) < 2 or text[0] not in '\'"' or text[-1] != text[0] or '\\' in text:
        raise ValueError('it has a string that is not quoted')
    m.stack.append(text[1:-1])


def _stack_name(m: _Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if not (isinstance(name, str) and isinstance(module, str)):
        raise ValueError('it has a name that is no text')
    m.name(f'{module}.{name}')


def _reduce(m: _Machine) -> None:
    m.call(m.stack.pop())


def _new_object_with_keywords(m: _Machine) -> None:
    if m.stack.pop():
        raise ValueError('it calls something with keywords')
    _reduce(m)


def _old_object(m: _Machine) -> None:
    kind, *arguments = m.pop_mark()
    m.stack.append(kind)
    m.call(tuple(arguments))


def _old_instance(m: _Machine) -> None:
    module, name = m.line(MAX_NAME), m.line(MAX_NAME)
    arguments = tuple(m.pop_mark())
    m.name(f'{module}.{name}')
    m.call(arguments)


def _pop(m: _Machine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.pop_mark()


def _set_item(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.set_items([key, value])


def _append_one(m: _Machine) -> None:
    item = m.stack.pop()
    m.append([item])


def _new_dict(m: _Machine) -> None:
    items = m.pop_mark()
    m.stack.append({})
    m.set_items(items)


_INSTRUCTIONS: dict[int, Callable[[_Machine], None]] = {
    code[0]: run
    for code, run in {
        # frames and the protocol's number change nothing
        b'\x80': lambda m: m.take(1),
        b'\x95': lambda m: m.take(8),
        # constants and numbers
        b'N': _constant(None),
        b'\x88': _constant(True),
        b'\x89': _constant(False),
        b'K': lambda m: m.stack.append(m.byte()),
        b'M': _number(_U2),
        b'J': _number(_I4),
        b'G': _number(_F8),
        b'\x8a': lambda m: m.integer(m.byte()),
        b'\x8b': lambda m: m.integer(m.number(_I4)),
        b'I': lambda m: m.stack.append(_decimal(m.line(2 * MAX_INTEGER))),
        b'L': lambda m: m.stack.append(_decimal(m.line(2 * MAX_INTEGER))),
        b'F': lambda m: m.stack.append(float(m.line(64))),
        # text and bytes
        b'X': lambda m: m.text(m.number(_U4)),
        b'\x8c': lambda m: m.text(m.byte()),
        b'\x8d': lambda m: m.text(m.number(_U8)),
        b'V': lambda m: m.stack.append(m.line(len(m.data), 'raw-unicode-escape')),
        b'S': _string,
        b'U': lambda m: m.text(m.byte(), 'latin1'),  # bytes of Python 2
        b'T': lambda m: m.text(m.number(_I4), 'latin1'),
        b'C': lambda m: m.binary(m.byte()),
        b'B': lambda m: m.binary(m.number(_U4)),
        b'\x8e': lambda m: m.binary(m.number(_U8)),
        b'\x96': lambda m: m.binary(m.number(_U8)),
        # containers; a set becomes a list
        b'(': _Machine.mark,
        b')': _constant(()),
        b'\x85': lambda m: m.tuple_of(1),
        b'\x86': lambda m: m.tuple_of(2),
        b'\x87': lambda m: m.tuple_of(3),
        b't': lambda m: m.push(tuple(m.pop_mark())),
        b']': lambda m: m.stack.append([]),
        b'l': lambda m: m.push(m.pop_mark()),
        b'\x8f': lambda m: m.stack.append([]),
        b'\x91': lambda m: m.push(m.pop_mark()),
        b'a': _append_one,
        b'e': lambda m: m.append(m.pop_mark()),
        b'\x90': lambda m: m.append(m.pop_mark()),
        b'}': lambda m: m.stack.append({}),
        b'd': _new_dict,
        b's': _set_item,
        b'u': lambda m: m.set_items(m.pop_mark()),
        # the stack and the memo
        b'0': _pop,
        b'1': lambda m: m.pop_mark(),
        b'2': lambda m: m.stack.append(m.stack[-1]),
        b'p': lambda m: m.put(_decimal(m.line(20))),
        b'q': lambda m: m.put(m.byte()),
        b'r': lambda m: m.put(m.number(_U4)),
        b'\x94': lambda m: m.put(len(m.memo)),
        b'g': lambda m: m.get(_decimal(m.line(20))),
        b'h': lambda m: m.get(m.byte()),
        b'j': lambda m: m.get(m.number(_U4)),
        # names and calls
        b'c': lambda m: m.name(f'{m.line(MAX_NAME)}.{m.line(MAX_NAME)}'),
        b'\x93': _stack_name,
        b'R': _reduce,
        b'\x81': _reduce,
        b'\x92': _new_object_with_keywords,
        b'o': _old_object,
        b'i': _old_instance,
        b'b': _Machine.build,
        b'P': lambda m: m.persistent(m.line(MAX_NAME)),
        b'Q': lambda m: m.persistent(m.stack.pop()),
    }.items()
}
