"""Write a tar archive whose bytes depend on names and contents alone."""

import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

HEADERS = 1536  # bytes at most for the headers of a file and its padding, if the name is short


def write_tar(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files by name and content; the archive appears complete or not at all."""
    partial = path.with_name(f'.{path.name}.{uuid4().hex}.partial')
    try:
        with tarfile.open(partial, 'x', format=tarfile.PAX_FORMAT) as archive:
            for name, content in files:
                member = tarfile.TarInfo(name)  # without owner and time
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        with open(partial, 'rb') as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
