"""Jobs in forked children of this warm process. A child never returns into the tests of its parent,
and never makes it wait for ever.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a command ended."""

    code: int  # negative: the signal that ended it
    out: str
    err: str
    seconds: float  # without those in which other programs had the processor
    megabytes: int  # the most that the process had in memory, beyond what it inherited


def fork(job: Callable[[], int | None]) -> int:
    """Do ``job`` in a child, which ends with the code that it returns; the id of the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 99
    try:
        code = job() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def wait(pids: Sequence[int], seconds: float = 200) -> list[int]:
    """The exit codes, a signal as a negative number.

    ``seconds`` only ends what hangs: a run of a second may take many on a machine with other work.
    """
    deadline, codes = time.monotonic() + seconds, {}
    while len(codes) < len(pids):
        for pid in set(pids) - codes.keys():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline and len(codes) < len(pids):
            for pid in set(pids) - codes.keys():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise AssertionError(f'{len(pids) - len(codes)} of {len(pids)} hang after {seconds} s')
        time.sleep(0.005)
    return [codes[pid] for pid in pids]


def in_fork(job: Callable[[], int], folder: Path, seconds: float = 30) -> Ended:
    """Run ``job`` in a child whose current folder is ``folder``; its output goes through files."""
    out, err, queue = (folder.with_name(f'{folder.name}.{n}') for n in ('out', 'err', 'queue'))
    queue.write_text('0')
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    inherited = pages * os.sysconf('SC_PAGE_SIZE')  # of a test process that did much before

    def redirected() -> int:
        os.chdir(folder)
        waited = os.open(queue, os.O_WRONLY)  # before the job, which may give up its rights
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(n, 'w', buffering=1) for n in (1, 2))
        warnings.simplefilter('ignore')  # pytest makes errors of them
        try:
            return job()
        finally:
            os.write(waited, str(_waited()).encode())

    began = time.monotonic()
    pid = fork(redirected)
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > seconds:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    took = time.monotonic() - began - float(queue.read_text())
    code = os.waitstatus_to_exitcode(status)
    texts = (path.read_text(errors='replace') for path in (out, err))
    return Ended(code, *texts, took, max(0, usage.ru_maxrss - inherited // 1024) // 1024)


def _waited() -> float:
    """Seconds in which this process could have run and others did."""
    try:
        return int(Path('/proc/self/schedstat').read_text().split()[1]) / 1e9
    except OSError:  # a kernel that does not count them
        return 0.0
