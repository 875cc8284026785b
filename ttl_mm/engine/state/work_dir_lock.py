"""One trainer per work dir, on any file system: no ``flock``, which network file systems lack.

The lock is a file that names who holds it: host, process, start. It is made by a hard link, which
fails where the name exists, on NFS too. The holder touches it every few seconds, so that others can
tell a living run from one that crashed:

- a process of this machine that no longer exists, or this very process, which has begun another
  run: the lock is taken over at once;
- a process of another machine (or container): it is taken over if the file is not touched for
  ``SILENCE`` seconds, while the new run waits and watches.

A run that was taken for dead, because its machine slept, notices that the lock is another's and
ends before it saves anything.
"""

import json
import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import open_regular, read_bytes, read_system

NAME = 'run.lock'
BEAT = 5.0  # seconds between two touches
SILENCE = 45.0  # seconds without a touch after which a run on another machine counts as dead
_POLL = 0.5
_MAX_BYTES = 4096  # of the file


class WorkDirLock:
    """The right to write into a work dir; released by :meth:`release` or when the process ends.

    Args:
        folder: The work dir, which exists.
        tell: Called with one line before a wait.
    """

    def __init__(self, folder: Path, tell=print) -> None:
        self.path = folder / NAME
        self.me: dict[str, Any] = {}  # what the file will say
        self._tell = tell
        self._lost = ''
        self._done = threading.Event()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UserError: Another run holds it, or something else has its name.
        """
        self.me = _identity()
        while not self._create():
            try:
                holder, stamp = self._read()
            except OSError as error:
                raise UserError(
                    f'{self.path} is no lock of a run ({error.strerror}): remove it, or choose '
                    'another folder for results.'
                ) from error
            if holder is None:
                continue  # released in between
            if not self._is_dead(holder, stamp):
                raise UserError(
                    f'{self.path.parent} is in use: a run on {holder.get("host")} (process '
                    f'{holder.get("pid")}, started {holder.get("started")}) trains there. Wait for '
                    'it, stop it, or choose another folder for results.'
                )
            self._remove_of(holder)
        threading.Thread(target=self._beat, daemon=True).start()

    def check(self) -> None:
        """Refuse to go on if another run has taken the lock.

        Raises:
            UserError: It has.
        """
        if self._lost:
            raise UserError(self._lost)

    def release(self) -> None:
        """Give the lock back; does nothing the second time, or if it is another's by now."""
        self._done.set()
        if os.getpid() != self.me.get('pid'):
            return  # never taken, or by the process that this one was forked from
        with suppress(OSError):
            holder, _ = self._read()
            if holder and holder.get('token') == self.me['token']:
                self.path.unlink()

    def _create(self) -> bool:
        """Whether the file is made, by us; never a moment without its content."""
        own = self.path.with_name(f'{NAME}.{self.me["token"]}')
        own.write_text(json.dumps(self.me))
        try:
            os.link(own, self.path)
            return True
        except FileExistsError:
            return os.stat(own).st_nlink == 2  # NFS may do it, and lose the answer
        except OSError:  # a file system without hard links
            return self._create_exclusively()
        finally:
            own.unlink(missing_ok=True)

    def _create_exclusively(self) -> bool:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(handle, 'w') as file:
            file.write(json.dumps(self.me))
        return True

    def _read(self) -> tuple[dict[str, Any] | None, int]:
        """Who holds the lock, and when it was touched last; opened, so that NFS looks again."""
        try:
            with open_regular(self.path, _MAX_BYTES) as file:
                stamp = os.fstat(file.fileno()).st_mtime_ns
                return _holder(file.read()), stamp
        except FileNotFoundError:
            return None, 0

    def _is_dead(self, holder: dict[str, Any], stamp: int) -> bool:
        if holder.get('machine') == self.me['machine']:
            return holder.get('pid') == self.me['pid'] or not _is_running(holder)
        self._tell(
            f'{self.path} names a run on {holder.get("host")}; waiting up to {SILENCE:g} s to see '
            'whether it is alive'
        )
        deadline = time.monotonic() + SILENCE
        while time.monotonic() < deadline:
            time.sleep(_POLL)
            now, touched = self._read()
            if now is None:
                return True
            if touched != stamp or now.get('token') != holder.get('token'):
                return False
        return True

    def _remove_of(self, holder: dict[str, Any]) -> None:
        """Remove the lock of a dead run; if somebody was faster, put theirs back."""
        aside = self.path.with_name(f'{NAME}.{uuid.uuid4().hex}')
        try:
            os.rename(self.path, aside)
        except FileNotFoundError:
            return
        try:
            found = _holder(read_bytes(aside, _MAX_BYTES))
        except OSError:
            found = {}
        if found.get('token') != holder.get('token'):
            with suppress(OSError):
                os.link(aside, self.path)
        aside.unlink(missing_ok=True)

    def _beat(self) -> None:
        """Touch the file until the end; remember if it is no longer ours."""
        while not self._done.wait(BEAT):
            try:
                holder, _ = self._read()
                if holder is None:  # the work dir was moved or emptied: saving creates it again
                    continue
                if holder.get('token') != self.me['token']:
                    self._lost = (
                        f'{self.path.parent} was taken over by a run on {holder.get("host")} '
                        f'(process {holder.get("pid")}), because this one gave no sign of life for '
                        'long: nothing more is saved here.'
                    )
                    return
                os.utime(self.path)
            except OSError:
                continue  # an outage of the file system; the next touch may work


def _holder(content: bytes) -> dict[str, Any]:
    """What a lock says; nothing if it is damaged, so that its touches alone decide."""
    try:
        holder = parse_json(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _identity() -> dict[str, Any]:
    return {
        'host': socket.gethostname(),
        'machine': _machine(),
        'pid': os.getpid(),
        'born': _birth(os.getpid()),
        'started': f'{datetime.now():%Y-%m-%d %H:%M:%S}',
        'token': uuid.uuid4().hex,
    }


def _machine() -> str:
    """Where process ids mean the same: this boot of this machine, this container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(read_system('/proc/sys/kernel/random/boot_id').strip())
        parts.append(os.readlink('/proc/self/ns/pid'))
    return ' '.join(parts)


def _birth(pid: int) -> str:
    """When a process began, in ticks of the machine; ids are used again, this is not."""
    try:
        return read_system(f'/proc/{pid}/stat').rpartition(')')[2].split()[19]
    except OSError:
        return ''


def _is_running(holder: dict[str, Any]) -> bool:
    pid = holder.get('pid')
    if not isinstance(pid, int):
        return False
    if Path('/proc/self').exists():
        try:
            dead = read_system(f'/proc/{pid}/stat').rpartition(')')[2].split()[0] in 'ZX'
        except OSError:
            return False
        return not dead and _birth(pid) == holder.get('born')
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
