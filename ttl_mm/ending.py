"""How every command ends, apart for what the user can correct, what the system lacks, and bugs.

``ttl``, ``tools/train.py`` and ``tools/test.py`` run their work through :func:`run_command`. The
codes are those of docs/training.md.
"""

import errno
import os
import re
import select
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.version import __version__

FINISHED = 0
BUG = 1
INTERRUPTED = 130  # Ctrl-C, as of any Unix program
PIPE_CLOSED = 141  # whoever reads the output has seen enough, as `head` does
#: what a wheel of ours does not bring along: one of two families of distributions must be chosen
INSTALL_STACK = 'pip install torch torchvision onedl-mmengine onedl-mmcv onedl-mmpretrain'
_REMEDIES = {
    errno.EACCES: 'check its owner and its permissions',
    errno.EPERM: 'check its owner and its permissions',
    errno.EROFS: 'the file system is read-only, choose another folder',
    errno.ENOSPC: 'make room on that disk or choose another folder',
    errno.EDQUOT: 'your quota is used up, make room or choose another folder',
    errno.EFBIG: 'a limit on the size of files is in the way, see `ulimit -f`',
    errno.ENOENT: 'check the path',
    errno.ENOTDIR: 'a part of the path is a file, check it',
    errno.EISDIR: 'this is a folder, name a file',
    errno.ENAMETOOLONG: 'choose a shorter path',
    errno.ELOOP: 'a link leads back to itself, remove it',
    errno.EMFILE: 'too many files are open at once, raise the limit with `ulimit -n 4096`',
    errno.ENFILE: 'too many files are open on this machine, close some programs',
    errno.ENOMEM: 'close other programs, or use smaller batches and fewer workers',
    errno.EIO: 'the disk or the network file system fails, try again or ask who runs it',
    errno.ESTALE: 'the network file system was remounted, start again',
    errno.EADDRINUSE: 'another job uses this port, choose another one with PORT',
}


def run_command(job: Callable[[], int | None], name: str = '', folder: Path | None = None) -> int:
    """Run ``job`` and return the exit code; whatever ends it is one line on stderr.

    Args:
        job: Returns an exit code, or None for 0.
        name: What stands before the line, such as ``ttl eval``; else ``error`` or ``stopped``.
        folder: Where the traceback of a bug is kept; the temporary folder if it does not exist.
    """
    try:
        code = job() or FINISHED
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        message, code = 'interrupted, nothing more is written', INTERRUPTED
    except UserError as error:
        message, code = _without_worker(str(error)), error.exit_code
        name = name or error.prefix.removesuffix(': ')
    except BaseException as error:
        if _stdout_is_closed(error):
            return PIPE_CLOSED
        if hasattr(error, 'exit_code'):  # a run that was asked to end, which is no error
            message, code = str(error), error.exit_code
        elif sentence := system_error(error) or missing_package(error):
            message, code = sentence, UserError.exit_code
        elif isinstance(error, Exception):
            message, code = _bug(error, folder), BUG
        else:
            raise  # SystemExit of argparse
        name = name or ('error' if code in (BUG, UserError.exit_code) else '')
    with suppress(OSError, ValueError):  # a closed or full stderr
        print(one_line(f'{name}: {message}' if name else message), file=sys.stderr, flush=True)
    return code


def system_error(error: BaseException) -> str | None:
    """One sentence for what the machine lacks or forbids; None if ``error`` is something else."""
    if isinstance(error, MemoryError) or 'out of memory' in str(error).lower():
        return (
            f'out of memory ({_first_line(error)}): use a smaller batch or smaller images, or '
            'close other programs.'
        )
    if isinstance(error, RuntimeError) and 'home directory' in str(error):
        return 'no home directory is known: set HOME, or XDG_CACHE_HOME for the cache.'
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        # torch and safetensors turn a failed read or write into an error of their own
        if match := re.search(r'\(os error (\d+)\)', str(cause)):
            cause = OSError(int(match[1]), os.strerror(int(match[1])))
            break
        wraps = isinstance(cause, RuntimeError)
        cause = (cause.__cause__ or cause.__context__) if wraps else None
    if cause is None or cause.errno is None:
        return None
    names = [str(_text(n)) for n in (cause.filename, cause.filename2) if n is not None]
    place = ' -> '.join(names) + ': ' if names else ''
    remedy = _REMEDIES.get(cause.errno, 'correct this and try again')
    return f'{place}{cause.strerror or _first_line(cause)}: {remedy}.'


def missing_package(error: BaseException) -> str | None:
    """One sentence where a whole package is not installed; None if ``error`` is something else."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition('.')[0]
    try:
        found = find_spec(package) is not None  # then one of its modules is missing: not expected
    except ValueError:  # it is there, and not by an ordinary import
        found = True
    if found:
        return None
    return (
        f'the package {package} is not installed: `ttl doctor` lists what is missing. The packages '
        f'that training needs come with `{INSTALL_STACK}`.'
    )


def one_line(text: str) -> str:
    """``text`` without line breaks and without characters that act on a terminal."""
    joined = ' '.join(text.split())
    return ''.join(c if c.isprintable() else repr(c)[1:-1] for c in joined)


def _bug(error: Exception, folder: Path | None) -> str:
    whole = ''.join(traceback.format_exception(error))
    place = 'It could not be kept, so here it is: ' + whole
    for home in (folder, Path(tempfile.gettempdir())):
        if home is not None and home.is_dir():
            path = home / f'ttl_mm-error-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.txt'
            with suppress(OSError):
                path.write_text(f'ttl_mm {__version__}\n{sys.argv}\n{whole}')
                place = f'The traceback is in {path}: please open an issue with it'
                break
    return f'a bug of ttl_mm ({type(error).__name__}: {_first_line(error)}). {place}.'


def _without_worker(text: str) -> str:
    """The message alone, where torch has put the traceback of a worker around it."""
    if 'in DataLoader worker process' not in text.split('\n', 1)[0]:
        return text
    return text.strip().splitlines()[-1].partition(': ')[2] or text


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _text(name: str | bytes | int) -> str | int:
    return os.fsdecode(name) if isinstance(name, bytes) else name


def _stdout_is_closed(error: BaseException) -> bool:
    """Whether the reader of our output has gone; later writes then go nowhere."""
    if not isinstance(error, BrokenPipeError):
        return False
    asked = select.poll()
    asked.register(sys.stdout.fileno(), select.POLLOUT)
    if not any(found & select.POLLERR for _, found in asked.poll(0)):
        return False  # another pipe, such as that of a worker
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
    return True
