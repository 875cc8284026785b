"""Follow running jobs: the page is written again whenever their logs grow."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ttl_mm.report.logs import load_run, logs_of


def follow(
    runs: Sequence[str | Path],
    write: Callable[[int], Path],
    every: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Path]:
    """Yield the page each time it was written, until no run is running; the last one stays still.

    Args:
        runs: work dirs; folders with results alone do not change.
        write: writes the page; it gets the seconds after which the page loads itself again.
        every: seconds between two looks at the logs.
        sleep: waits that long.
    """
    folders = [Path(run).resolve() for run in runs]
    seen = None
    while any(load_run(f).status.startswith('running') for f in folders if logs_of(f)):
        now = [(log.stat().st_size, log.stat().st_mtime) for f in folders for log in logs_of(f)]
        if now != seen:
            yield write(every)
            seen = now
        sleep(every)
    yield write(0)
