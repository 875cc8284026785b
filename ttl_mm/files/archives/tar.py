"""The files of a tar archive and where they lie; nothing is unpacked.

Python's ``tarfile`` unpacks links and devices, follows a header's claims and goes on after damage.
Here every header has a right checksum, every file lies within the archive, and what is neither file
nor folder is refused.
"""

import os
from collections.abc import Iterator
from typing import BinaryIO
from zlib import adler32

from ttl_mm.files.archives.entry import MAX_NAME, Entry, check_name
from ttl_mm.files.regular import size_of

BLOCK = 512
MAX_HEADER = 2**16  # bytes of an extended header
_FILES = b'0\x007'
_FOLDER, _PAX, _PAX_FOR_ALL, _LONG_NAME = b'5', b'x', b'g', b'L'
_REFUSED = {
    b'1': 'a hard link',
    b'2': 'a link',
    b'3': 'a device',
    b'4': 'a device',
    b'6': 'a named pipe',
    b'K': 'a link',
    b'S': 'a sparse file',
}
_SPACES = b' ' * 8
_ZEROS = bytes(BLOCK)


def tar_entries(file: BinaryIO) -> Iterator[Entry]:
    """Every file of an archive, in its order.

    Raises:
        ValueError: It is no tar archive, damaged, cut short, appended to, or has a member that is
            not allowed; the message names the member.
    """
    end, position = size_of(file), 0
    read = file.fileno()
    extended: dict[str, str] = {}
    last = name = ''  # the member before, and this one as soon as its name is known; for messages
    while position + BLOCK <= end:
        header = os.pread(read, BLOCK, position)
        if header == _ZEROS:
            _check_end(read, position, end, _after(last))
            return
        try:
            kind, size = _parse(header)
            content = position + BLOCK
            if content + size > end:
                raise ValueError(f'{size} bytes are claimed, {end - content} are left')
            if kind in (_PAX, _LONG_NAME):
                extended |= _extended(kind, read, content, size)
            elif kind not in (_PAX_FOR_ALL, _FOLDER):
                name = extended.get('path') or _name(header)
                if kind not in _FILES:
                    what = _REFUSED.get(kind, f'of the unknown kind {kind!r}')
                    raise ValueError(f'it is {what}: only files and folders are read')
                if 'size' in extended:
                    size = _real_size(extended['size'], end - content)
                yield Entry(check_name(name.removeprefix('./')), content, size, size)
                extended, last, name = {}, name, ''
            else:
                extended = {}
        except ValueError as error:
            member = repr(name[:80]) if name else f'the member{_after(last)}'
            member = member if name or last else 'its first member'
            raise ValueError(f'{member}, at byte {position}: {error}') from None
        position = content + -(-size // BLOCK) * BLOCK
    raise ValueError(
        f'it ends{_after(last)}, at byte {end}, without an end mark: it was cut short; copy it '
        'again'
    )


def _after(name: str) -> str:
    return f' after {name[:80]!r}' if name else ''


def _check_end(read: int, position: int, end: int, last: str) -> None:
    """After the end mark only zeros may follow: what was appended would be lost in silence."""
    while rest := os.pread(read, min(2**20, end - position), position):
        if rest.strip(b'\0'):
            raise ValueError(
                f'data follow its end mark{last}, at byte {position}: archives were joined; make '
                'one archive of them'
            )
        position += len(rest)


def _parse(header: bytes) -> tuple[bytes, int]:
    """Kind and size of a member, if the checksum of the header is right."""
    checksum = _number(header[148:156])
    # an Adler sum of fewer than 258 bytes holds their sum, plus one, in its lower half
    found = (adler32(header[:256]) & 0xFFFF) + (adler32(header[256:]) & 0xFFFF) - 2
    if found - sum(header[148:156]) + sum(_SPACES) != checksum:
        raise ValueError('this is no header of a tar archive, or a damaged one')
    return header[156:157], _number(header[124:136])


def _number(field: bytes) -> int:
    if field[0] == 0x80:  # sizes from 8 GB on
        return int.from_bytes(field[1:], 'big')
    digits = field.strip(b'\0 ') or b'0'
    if not digits.isdigit() or b'8' in digits or b'9' in digits:
        raise ValueError(f'{field!r} is no number')
    return int(digits, 8)


def _name(header: bytes) -> str:
    name = header[:100].partition(b'\0')[0]
    prefix = header[345:500].partition(b'\0')[0] if header[257:263] == b'ustar\0' else b''
    return os.fsdecode(prefix + b'/' + name if prefix else name)


def _extended(kind: bytes, read: int, position: int, size: int) -> dict[str, str]:
    """What an extended header says about the next member: its path and size."""
    if size > (MAX_HEADER if kind == _PAX else MAX_NAME + 1):
        raise ValueError(f'an extended header of {size} bytes')
    content = os.pread(read, size, position)
    if kind == _LONG_NAME:
        return {'path': os.fsdecode(content.partition(b'\0')[0])}
    found = _pax_records(content)
    if any(key.startswith('GNU.sparse') for key in found):
        raise ValueError('it is a sparse file: only plain files are read')
    return {key: found[key] for key in ('path', 'size') if key in found}


def _pax_records(content: bytes) -> dict[str, str]:
    """The records of an extended header: LENGTH, a blank, KEY=VALUE, a line end."""
    records, position = {}, 0
    while position < len(content):
        digits, blank, _ = content[position : position + 8].partition(b' ')
        length = int(digits) if blank and digits.isdigit() else 0
        record = content[position : position + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b'=')
        if not equals or record[-1:] != b'\n' or len(record) != length:
            raise ValueError('a broken extended header')
        records[os.fsdecode(key)] = os.fsdecode(value)
        position += length
    return records


def _real_size(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
        raise ValueError(f'a size of {text[:40]!r} bytes, {most} are left')
    return int(text)
