"""How a training process ends, for scripts that start it again."""

import os
from pathlib import Path

from ttl_mm.errors import UserError

FINISHED = 0
USER_ERROR = 2  # the user must change something before another try
STOPPED = 3  # a guard stopped the run: another try would go the same way
PREEMPTED = 75  # saved on a signal: the same command with --resume continues
STALLED = 76  # a rank did not answer within the time-out: --resume continues


class TrainingStopped(UserError):
    """A guard ended the run; the message says what it found and what to change."""


class Preempted(Exception):
    """The run was asked to end, and has saved a checkpoint."""


def tell_launcher(code: int) -> None:
    """Torchrun knows only success and failure: ``dist_train.sh`` reads the first code here."""
    path = os.environ.get('TTL_EXIT_FILE')
    if path and not Path(path).read_text():
        Path(path).write_text(str(code))
