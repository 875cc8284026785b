"""Things that can lie in the place of a file, and would stop or fill whoever reads them."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path


def odd_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """What it is called in messages, and its path; each would hang or never end."""
    pipe = folder / 'pipe'
    os.mkfifo(pipe)
    yield 'a named pipe', pipe
    link = folder / 'link'
    link.symlink_to(pipe)
    yield 'a named pipe', link
    zeros = folder / 'zeros'
    zeros.symlink_to('/dev/zero')
    yield 'a device', zeros
    yield 'a folder', folder


def make_socket(path: Path) -> Path:
    """A socket file, which lives as long as the folder."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path
