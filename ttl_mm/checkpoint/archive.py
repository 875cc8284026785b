"""The zip archive that ``torch.save`` writes, read strictly.

Zip says the same thing in several places, and readers differ in which they believe: one and the
same file can show one directory to a check and another to what loads it. So every place must agree
here, and the bytes that were checked are the ones that are read. torch stores its records
uncompressed; all of them together are smaller than the file, which no zip bomb can be.
"""

import os
import struct
import zlib
from typing import BinaryIO, NamedTuple

import torch
from torch import Tensor

from ttl_mm.files.regular import size_of

MAGIC = b'PK\x03\x04'
MAX_RECORDS = 2**20
_END = struct.Struct('<4s4H2IH')  # end of central directory
_END64 = struct.Struct('<4sQ2H2I4Q')
_LOCATOR64 = struct.Struct('<4sIQI')
_ENTRY = struct.Struct('<4s6H3I5H2I')
_LOCAL = struct.Struct('<4s5H3I2H')
_COMMENT = 0xFFFF  # the longest comment behind the end record, where our seal is too
_U4 = 0xFFFFFFFF


class Record(NamedTuple):
    """An entry of the archive: where its local header is, its size, its checksum."""

    header: int
    size: int
    crc: int
    limit: int  # where the next entry starts


class Archive:
    """The records of an archive by name; ValueError where it is damaged or not as torch writes."""

    def __init__(self, file: BinaryIO) -> None:
        self.handle, self.size = file.fileno(), size_of(file)
        count, start, end = self._find_directory()
        self.records = self._read_directory(count, start, end)

    def _read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self.handle, length, position)
        if len(data) != length:
            raise ValueError('the archive is cut short')
        return data

    def _find_directory(self) -> tuple[int, int, int]:
        """How many records there are, and where their directory starts and ends."""
        window = min(self.size, _COMMENT + _END.size + _LOCATOR64.size + _END64.size)
        tail, first = self._read_at(self.size - window, window), self.size - window
        at = tail.rfind(b'PK\x05\x06', 0, max(0, len(tail) - _END.size + 4))
        if at < 0:
            raise ValueError('the archive has no end: it is cut short')
        _, disk, start_disk, here, count, length, start, _ = _END.unpack_from(tail, at)
        end = first + at
        if tail[max(0, at - _LOCATOR64.size) : at].startswith(b'PK\x06\x07'):
            place = end - _LOCATOR64.size - _END64.size
            _, _, claimed, _ = _LOCATOR64.unpack_from(tail, at - _LOCATOR64.size)
            if place < 0 or claimed != place:
                raise ValueError('the archive has two ends')
            fields = _END64.unpack(self._read_at(place, _END64.size))
            if fields[0] != b'PK\x06\x06' or fields[1] != _END64.size - 12:
                raise ValueError('the archive has a damaged end')
            short, wide = (here, count, length, start), fields[6:]
            if any(s not in (w, 0xFFFF, _U4) for s, w in zip(short, wide)):
                raise ValueError('the archive has two ends')
            here, count, length, start = wide
            end = place
        if disk or start_disk or here != count or start + length != end or count > MAX_RECORDS:
            raise ValueError('the archive has its directory in an unusual place')
        return count, start, end

    def _read_directory(self, count: int, start: int, end: int) -> dict[str, Record]:
        directory, at = self._read_at(start, end - start), 0
        found: list[tuple[str, int, int, int]] = []
        for _ in range(count):
            if len(directory) - at < _ENTRY.size:
                raise ValueError('the directory of the archive is cut short')
            fields = _ENTRY.unpack_from(directory, at)
            (magic, _, _, flags, method, _, _, crc, packed, size, n_name, n_extra, n_comment,
             _, _, _, header) = fields  # fmt: skip
            at += _ENTRY.size
            name = directory[at : at + n_name].decode('utf-8')
            extra = directory[at + n_name : at + n_name + n_extra]
            at += n_name + n_extra + n_comment
            if magic != b'PK\x01\x02' or at > len(directory) or flags & 1:
                raise ValueError('the directory of the archive is damaged')
            parts = name.split('/')
            if '..' in parts or parts[0] == '' or '\\' in name:
                raise ValueError(f'refused: it names an entry {name[:100]!r}')
            size, packed, header = _wide_numbers(extra, size, packed, header)
            if method or size != packed:
                claim = f'is compressed (to {size} bytes), which torch.save never does'
                raise ValueError(f'refused: its entry {name[:100]!r} {claim}')
            found.append((name, header, size, crc))
        total = sum(size for _, _, size, _ in found)
        if total > self.size:
            raise ValueError(f'refused: its entries claim {total} bytes, the file has {self.size}')
        if at != len(directory) or len({name for name, *_ in found}) != len(found):
            raise ValueError('the directory of the archive is damaged')
        found.sort(key=lambda entry: entry[1])
        limits = [header for _, header, _, _ in found[1:]] + [start]
        return {n: Record(h, size, crc, end) for (n, h, size, crc), end in zip(found, limits)}

    def read(self, name: str, check: bool = False) -> Tensor:
        """The bytes of a record, (size,) uint8; ``check`` compares them with their checksum.

        torch does not compare either: for 100 MB it would take a tenth of the time to read them.
        """
        record = self.records[name]
        local = _LOCAL.unpack(self._read_at(record.header, _LOCAL.size))
        start = record.header + _LOCAL.size + local[-2] + local[-1]
        if local[0] != MAGIC or local[3] or start + record.size > record.limit:
            raise ValueError(f'the entry {name[:100]!r} of the archive is damaged')
        data = torch.empty(record.size, dtype=torch.uint8)
        view, done = data.numpy().data, 0
        while done < record.size:  # the system reads 2 GB at once
            count = os.preadv(self.handle, [view[done:]], start + done)
            if count == 0:
                raise ValueError('the archive is cut short')
            done += count
        if check and zlib.crc32(view) != record.crc:
            raise ValueError(f'the entry {name[:100]!r} of the archive is damaged')
        return data


def _wide_numbers(extra: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """Replace the numbers that do not fit into 32 bits by those of the extra field."""
    numbers = [size, packed, header]
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from('<HH', extra, at)
        if kind == 1 and at + 4 + length <= len(extra):
            wide = struct.unpack(f'<{length // 8}Q', extra[at + 4 : at + 4 + length // 8 * 8])
            places = [i for i, number in enumerate(numbers) if number == _U4]
            for i, value in zip(places, wide):
                numbers[i] = value
            break
        at += 4 + length
    return numbers[0], numbers[1], numbers[2]
