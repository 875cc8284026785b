"""A command in a forked child of this warm process: its code, output, time and memory."""

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a command ended."""

    code: int  # negative: the signal that ended it
    out: str
    err: str
    seconds: float
    megabytes: int  # the most that the process had in memory, beyond what it inherited


def in_fork(job: Callable[[], int], folder: Path, seconds: float = 30) -> Ended:
    """Run ``job`` in a child whose current folder is ``folder``; its output goes through files."""
    out, err = (folder.with_name(f'{folder.name}.{name}') for name in ('out', 'err'))
    sys.stdout.flush()
    sys.stderr.flush()
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    inherited = pages * os.sysconf('SC_PAGE_SIZE')  # of a test process that did much before
    began = time.monotonic()
    if (pid := os.fork()) == 0:
        code = 99
        try:
            os.chdir(folder)
            for path, number in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = (os.fdopen(n, 'w', buffering=1) for n in (1, 2))
            warnings.simplefilter('ignore')  # pytest makes errors of them
            code = job()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > seconds:
            os.kill(pid, 9)
        time.sleep(0.002)
    took = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    texts = (path.read_text(errors='replace') for path in (out, err))
    return Ended(code, *texts, took, max(0, usage.ru_maxrss - inherited // 1024) // 1024)
