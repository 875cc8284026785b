"""Fetch archives before they are needed, in a process of its own.

``python -m ttl_mm.files.stores.prefetch`` reads lists of places in the cache from its standard
input, one as JSON in a line, and fetches those of the newest list in their order. It ends when its
input does. What it cannot fetch it leaves to the process that reads the archive, which asks again
and says what is wrong.
"""

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import archive_index
from ttl_mm.files.stores.cache import cache_bound, is_cached, open_remote, remote_file

MODULE = 'ttl_mm.files.stores.prefetch'
AT_ONCE = 4
AGAIN = 10.0  # seconds after which a list is gone through again


class Prefetcher:
    """The process that fetches archives; it starts with the first list."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._owner = os.getpid()

    def want(self, groups: Iterable[Sequence[Path]]) -> None:
        """Let archives be fetched: those of the first group, and as many more as find room.

        The first group is what is read now. If the cache cannot hold it, nothing is done: what is
        fetched before it is needed would only remove what is needed now.
        """
        wanted: list[str] = []
        with suppress(UserError):  # who reads the archive will be told
            wanted = _that_fit(groups)
        if self._process is None and wanted:
            self._process = _start()
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it was ended
                self._process.stdin.write(json.dumps(wanted).encode() + b'\n')
                self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():  # not in a fork of it
            process.kill()
            process.communicate()

    def __del__(self) -> None:
        if '_process' in self.__dict__:
            self.close()


def _that_fit(groups: Iterable[Sequence[Path]]) -> list[str]:
    wanted: dict[str, None] = {}
    room = cache_bound()
    for number, group in enumerate(groups):
        for path in group:
            if str(path) in wanted:  # the next epoch has come to what this one reads
                return list(wanted)
            room -= remote_file(path).size
            if room < 0:
                return list(wanted) if number else []
            wanted[str(path)] = None
    return list(wanted)


def _start() -> subprocess.Popen:
    package = str(Path(__file__).parents[3])  # where ttl_mm lies
    paths = [package, *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, '-m', MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, paths))},
        start_new_session=True,  # signals to the run are not meant for it
    )


class _Queue:
    """The archives of the newest list that nobody fetches yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: list[str] = []
        self._left: deque[str] = deque()

    def replace(self, wanted: list[str]) -> None:
        with self._changed:
            self._wanted, self._left = wanted, deque(wanted)
            self._changed.notify_all()

    def take(self) -> Path:
        with self._changed:
            while not self._left:
                if not self._changed.wait(AGAIN):
                    # those that wait must not become the oldest; those that failed get a new try
                    self._left = deque(self._wanted)
            return Path(self._left.popleft())


def _fetch_all(queue: _Queue) -> None:
    while True:
        path = queue.take()
        with suppress(UserError, OSError):
            open_remote(path, patient=False).close()
            archive_index(path)  # which each process that reads it would make otherwise


def main() -> None:
    """Fetch what the input asks for until it ends."""
    queue = _Queue()
    for _ in range(AT_ONCE):
        threading.Thread(target=_fetch_all, args=(queue,), daemon=True).start()
    for line in sys.stdin.buffer:
        wanted = json.loads(line)
        for path in wanted:
            with suppress(UserError, OSError):
                is_cached(Path(path))  # which makes it younger than what is not wanted
        queue.replace(wanted)
    os._exit(0)  # at once, in the middle of a transfer too


if __name__ == '__main__':
    main()
