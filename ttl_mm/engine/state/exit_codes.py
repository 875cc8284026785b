"""How a training process ends, for scripts that start it again."""

import os
import sys
import threading
import time
from contextlib import suppress

from ttl_mm.ending import FINISHED, INTERRUPTED
from ttl_mm.errors import UserError
from ttl_mm.files.regular import read_text

__all__ = ['FINISHED', 'INTERRUPTED', 'PREEMPTED', 'STALLED', 'STOPPED', 'USER_ERROR']

USER_ERROR = UserError.exit_code  # the user must change something before another try
STOPPED = 3  # a guard stopped the run: another try would go the same way
PREEMPTED = 75  # saved on a signal: the same command with --resume continues
STALLED = 76  # a rank did not answer within the time-out: --resume continues

LOOK = 2.0  # seconds between two looks at the exit file
GRACE = 10.0  # seconds in which a rank may end by itself after another one has ended

# how a run that diverged goes on; a changed rate is used from the checkpoint on
SMALLER_RATE = 'a smaller learning rate (--resume --cfg-options optim_wrapper.optimizer.lr=RATE)'


class TrainingStopped(UserError):
    """A guard ended the run; the message says what it found and what to change."""

    exit_code = STOPPED
    prefix = 'stopped: '


class Preempted(Exception):
    """The run was asked to end, and has saved a checkpoint."""

    exit_code = PREEMPTED


class Interrupted(Preempted):
    """Ctrl-C; saved as for any other request to end."""

    exit_code = INTERRUPTED


class WorkerLost(Preempted):
    """A process that loads data has died; what was trained until then is saved."""


def tell_launcher(code: int) -> None:
    """Write the code and this rank into the job's exit file, unless another rank was first.

    A launcher reports the code that one of its processes ended with, not the one that ended first
    and took the others along: ``dist_train.sh`` and ``slurm_train.sh`` read it here. The other
    ranks read it too (:func:`follow_first`), so the file of a job on several machines lies on a
    shared file system. One that cannot be written is no reason to fail.
    """
    if path := os.environ.get('TTL_EXIT_FILE'):
        with suppress(OSError):
            os.makedirs(os.path.dirname(path) or '.', exist_ok=True)  # temporary folders get lost
            with open(path, 'x') as file:  # exclusive: the first one decides
                file.write(f'{code} {_rank()}\n')


def begin_again() -> int | None:
    """For a rank that an elastic launcher starts: the code to end with at once, if another try is
    useless; else the file of the ranks before it is removed.
    """
    if not os.environ.get('TTL_ELASTIC'):
        return None
    if (first := written_by_first()) and first[0] in (USER_ERROR, STOPPED):
        return first[0]
    with suppress(OSError):
        os.unlink(os.environ['TTL_EXIT_FILE'])
    return None


def written_by_first() -> tuple[int, int] | None:
    """The code of the rank that ended first, and that rank; None while nobody has ended badly."""
    try:
        code, rank = read_text(os.environ['TTL_EXIT_FILE'], 100).split()
        return int(code), int(rank)
    except (KeyError, OSError, ValueError):  # none, not yet there, or not yet written to
        return None


def follow_first() -> None:
    """From now on, end this process soon after a rank that has ended badly, with the same code.

    To be called before ranks wait for each other: a collective would wait for hours for a rank
    that is gone. The thread does nothing but read the exit file, since a file system may hang.
    """
    if 'TTL_EXIT_FILE' in os.environ:
        threading.Thread(target=_follow_first, daemon=True).start()


def _follow_first() -> None:
    while (first := written_by_first()) is None:
        time.sleep(LOOK)
    time.sleep(GRACE)
    code, rank = first
    end_process(f'rank {rank} has ended with code {code}, and its message says why', code)


def end_process(finding: str, code: int) -> None:
    """End at once, from any thread, with a line about it."""
    print(f'stopped rank {_rank()}: {finding}.', file=sys.stderr, flush=True)
    tell_launcher(code)
    os._exit(code)


def _rank() -> str:
    return os.environ.get('RANK') or os.environ.get('SLURM_PROCID') or '0'
