"""A list of file names of any length that stays in its file, one name per line.

Thirty million names as Python strings take 3 GB, and again as much in every worker, since reading
a string changes its reference count. Here the text stays on disk (and in the page cache, which all
processes share). Memory holds the position of every 64th line, 1/8 byte per name, and reading a
name takes one ``pread``.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.files.regular import NAMES, open_regular

BLOCK = 64  # lines between two remembered positions
CHUNK = 1 << 24  # bytes read at once
EXPECTED = 'one file name per line is expected'
BYTE_ORDER_MARK = b'\xef\xbb\xbf'


class NameList(Sequence[str]):
    """The lines of a text file as a read-only sequence of names.

    Names keep their spaces; only line ends (also those of Windows), a byte order mark and empty
    lines at the end of the file are dropped. Safe to fork, to pickle and to share between threads,
    because a read does not move a file position.

    Raises:
        UserError: The file is missing, empty or binary, has an empty line, or has changed since
            it was indexed.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self._open()
        self._end, self._starts, self._length = _index_lines(self._file.fileno(), self.path)

    def _open(self) -> None:
        try:
            self._file = open_regular(self.path, NAMES)
        except OSError as error:
            raise UserError(
                f'the list of names {self.path} cannot be read ({error.strerror}): check its path.'
            ) from None
        status = os.fstat(self._file.fileno())
        self._fingerprint = status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if '_file' in self.__dict__:
            self._file.close()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # no slices
        position = index + self._length if index < 0 else int(index)
        if not 0 <= position < self._length:
            raise IndexError(f'name {index} of {self._length} in {self.path}')
        block, line = divmod(position, BLOCK)
        return _decode(self._read_blocks(block, block + 1)[line])

    def __iter__(self) -> Iterator[str]:
        step = 256  # blocks; about 1 MB
        for block in range(0, len(self._starts), step):
            yield from map(_decode, self._read_blocks(block, block + step))

    def _read_blocks(self, first: int, last: int) -> list[bytes]:
        start = int(self._starts[first])
        stop = int(self._starts[last]) if last < len(self._starts) else self._end
        text = os.pread(self._file.fileno(), stop - start, start)
        if len(text) != stop - start:
            raise UserError(f'{self.path} was cut short while it was in use: start again.')
        return text.removesuffix(b'\n').split(b'\n')

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the list takes in this process."""
        return self._starts.nbytes

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key != '_file'}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._open()
        if self._fingerprint != state['_fingerprint']:
            raise UserError(f'{self.path} has changed since it was opened: start again.')


def write_name_list(path: str | os.PathLike, names: Iterable[str]) -> None:
    """Write one name per line; the file appears complete or not at all."""
    path = Path(path)
    partial = path.with_name(f'{path.name}.{uuid4().hex}.partial')
    try:
        with open(partial, 'xb') as file:  # and never through a link that somebody has put there
            for name in names:
                if not name or '\n' in name or '\r' in name:
                    raise UserError(f'{name!r} cannot stand in a list of names: rename that file.')
                file.write(os.fsencode(name) + b'\n')
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _decode(line: bytes) -> str:
    return os.fsdecode(line.removesuffix(b'\r'))


def _index_lines(fd: int, path: Path) -> tuple[int, np.ndarray, int]:
    """The end of the text, the start of every BLOCK-th line, and the number of lines."""
    end = _text_end(fd)
    position = len(BYTE_ORDER_MARK) if os.pread(fd, 3, 0) == BYTE_ORDER_MARK else 0
    if end <= position:
        raise UserError(f'{path} holds no names: {EXPECTED}.')
    blocks, lines = [], 0
    while position < end:
        text = os.pread(fd, min(CHUNK, end - position), position)
        if position + len(text) < end:  # up to the last complete line
            text = text[: text.rfind(b'\n') + 1]
            if not text:
                raise UserError(f'{path} has no line end in {CHUNK} bytes: {EXPECTED}.')
        starts = _line_starts(text, path, lines)
        blocks.append(starts[-lines % BLOCK :: BLOCK] + position)
        lines += len(starts)
        position += len(text)
    return end, np.concatenate(blocks), lines


def _text_end(fd: int) -> int:
    """Where the text ends, not counting the line ends after the last name."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 4096, max(0, size - 4096))
    return size - len(tail) + len(tail.rstrip(b'\r\n'))


def _line_starts(text: bytes, path: Path, lines_before: int) -> np.ndarray:
    """Offsets at which the lines of ``text`` begin; none may be empty or binary."""
    characters = np.frombuffer(text, np.uint8)
    starts = np.concatenate(([0], np.flatnonzero(characters[:-1] == ord('\n')) + 1))
    empty = np.isin(characters[starts], [ord('\n'), ord('\r')])
    if empty.any():
        line = lines_before + int(empty.argmax()) + 1
        raise UserError(f'line {line} of {path} is empty, and {EXPECTED}: remove that line.')
    if b'\0' in text:
        raise UserError(f'{path} is a binary file: {EXPECTED}.')
    return starts
