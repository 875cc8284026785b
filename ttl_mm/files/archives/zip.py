"""The files of a zip archive and where they lie; nothing is unpacked."""

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ttl_mm.files.archives.entry import DEFLATED, STORED, Entry, check_name
from ttl_mm.files.regular import size_of

MAX_FILES = 10_000_000
_END = struct.Struct('<4s18x')  # mark
_LOCAL_HEADER = struct.Struct('<4s22xHH')  # mark, lengths of name and extra field
_METHODS = {zipfile.ZIP_STORED: STORED, zipfile.ZIP_DEFLATED: DEFLATED}


def zip_entries(file: BinaryIO) -> Iterator[Entry]:
    """Every file of an archive, in the order of its directory.

    Raises:
        ValueError: It is no zip archive, damaged, or has a member that is not allowed.
    """
    try:
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError) as error:
        raise ValueError(f'it is no zip archive, or a damaged one: {error}') from None
    if len(members) > MAX_FILES:
        raise ValueError(f'it has {len(members)} files, {MAX_FILES} are allowed: split it')
    end = size_of(file)
    _check_ends(file, members, end - _END.size - len(archive.comment))
    for member in members:
        try:
            if member.filename.endswith('/'):
                continue  # a folder
            if member.flag_bits & 1:
                raise ValueError('it is encrypted')
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
                raise ValueError('it is a link or a device: only files and folders are read')
            if member.compress_type not in _METHODS:
                raise ValueError(f'compression {member.compress_type}: store or deflate it')
            yield Entry(
                check_name(member.filename), _content(file, member, end), member.file_size,
                member.compress_size, _METHODS[member.compress_type],
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f'{member.filename[:80]!r}: {error}') from None


def _check_ends(file: BinaryIO, members: list[zipfile.ZipInfo], mark: int) -> None:
    """What lies before the first file and after the end mark would be lost in silence."""
    first, last = (os.pread(file.fileno(), 4, max(0, place)) for place in (0, mark))
    begins = min((member.header_offset for member in members), default=0)
    if last != b'PK\5\6' or (first == b'PK\3\4' and begins > 0):
        raise ValueError(
            'it has data beside its own files: archives were joined, or something was appended; '
            'make one archive of them'
        )


def _content(file: BinaryIO, member: zipfile.ZipInfo, end: int) -> int:
    """Where the content starts: after the member's own header, which the directory points to."""
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b'PK\3\4':
        raise ValueError(f'no file begins at byte {member.header_offset}')
    _, name, extra = _LOCAL_HEADER.unpack(header)
    start = member.header_offset + _LOCAL_HEADER.size + name + extra
    if start + member.compress_size > end:
        raise ValueError(f'{member.compress_size} bytes are claimed, {end - start} are left')
    return start


def inflate(packed: bytes, size: int) -> bytes:
    """Unpack exactly ``size`` bytes.

    Raises:
        ValueError: They are damaged, or not as many.
    """
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = stream.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(f'it is damaged: {error}') from None
    if len(content) != size:
        raise ValueError(f'it unpacks to another size than {size} bytes')
    return content
