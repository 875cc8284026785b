"""The files of a zip archive and where they lie; nothing is unpacked."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ttl_mm.files.archives.entry import DEFLATED, STORED, Entry, check_name
from ttl_mm.files.regular import size_of

MAX_FILES = 10_000_000
_LOCAL_HEADER = struct.Struct('<4s22xHH')  # mark, lengths of name and extra field
_METHODS = {zipfile.ZIP_STORED: STORED, zipfile.ZIP_DEFLATED: DEFLATED}


def zip_entries(file: BinaryIO) -> Iterator[Entry]:
    """Every file of an archive, in the order of its directory.

    Raises:
        ValueError: It is no zip archive, damaged, or has a member that is not allowed.
    """
    try:
        members = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError) as error:
        raise ValueError(f'it is no zip archive, or a damaged one: {error}') from None
    if len(members) > MAX_FILES:
        raise ValueError(f'it has {len(members)} files, {MAX_FILES} are allowed: split it')
    end = size_of(file)
    for member in members:
        try:
            if member.filename.endswith('/'):
                continue  # a folder
            if member.flag_bits & 1:
                raise ValueError('it is encrypted')
            if member.compress_type not in _METHODS:
                raise ValueError(f'compression {member.compress_type}: store or deflate it')
            yield Entry(
                check_name(member.filename), _content(file, member, end), member.file_size,
                member.compress_size, _METHODS[member.compress_type],
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f'{member.filename[:80]!r}: {error}') from None


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
