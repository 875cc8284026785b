"""Follow running jobs: the page is written again whenever their logs grow."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ttl_mm.report.logs import load_run, logs_of
from ttl_mm.report.run import RUNNING_WITHIN_SECONDS


def follow(
    runs: Sequence[str | Path],
    write: Callable[[int], Path],
    every: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Path]:
    """Yield the page each time it was written, until no run is running; the last one stays still.

    A run that has begun and not logged yet is waited for.

    Args:
        runs: work dirs; folders with results alone do not change.
        write: writes the page; it gets the seconds after which the page loads itself again.
        every: seconds between two looks at the logs.
        sleep: waits that long.
    """
    folders = [Path(run).resolve() for run in runs]
    while any(_is_starting(folder) for folder in folders):
        sleep(every)
    seen = None
    while any(load_run(f).status.startswith('running') for f in folders if logs_of(f)):
        now = [(log.stat().st_size, log.stat().st_mtime) for f in folders for log in logs_of(f)]
        if now != seen:
            yield write(every)
            seen = now
        sleep(every)
    yield write(0)


def _is_starting(folder: Path) -> bool:
    """Whether a run has begun lately and has not logged anything yet."""
    begun = [found.stat().st_mtime for found in folder.glob('*/vis_data')]
    return bool(begun) and not logs_of(folder) and time.time() - max(begun) < RUNNING_WITHIN_SECONDS
