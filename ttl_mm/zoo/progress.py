"""Fetch with progress on stderr: lines of text, and a bar on a terminal."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from ttl_mm.zoo.cache import TIMEOUT, Check, fetch
from ttl_mm.zoo.manifest import Entry
from ttl_mm.zoo.transfer import Report


def fetch_visibly(
    entry: Entry,
    cache: Path | None = None,
    *,
    check: Check,
    allow_unhashed: bool = False,
    timeout: float = TIMEOUT,
) -> Path:
    """:func:`ttl_mm.zoo.cache.fetch` with progress for the user."""
    with _bar(entry.name) as report:
        return fetch(
            entry,
            cache,
            check=check,
            allow_unhashed=allow_unhashed,
            timeout=timeout,
            report=report,
            say=lambda text: print(text, file=sys.stderr),
        )


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    console = Console(stderr=True)
    columns = ('{task.description}', BarColumn(), DownloadColumn(), Speed(), TimeRemainingColumn())
    with contextlib.ExitStack() as stack:
        tasks: list[tuple] = []

        def report(done: int, total: int | None) -> None:
            if not console.is_terminal:
                return
            if not tasks:  # the bar appears with the first bytes
                bar = Progress(*columns, console=console, transient=True)
                tasks.append((stack.enter_context(bar), bar.add_task(name)))
            bar, task = tasks[0]
            bar.update(task, completed=done, total=total)

        yield report
