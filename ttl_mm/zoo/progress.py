"""A progress bar on stderr, if that is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from ttl_mm.zoo.transfer import Report


@contextmanager
def progress_bar(name: str) -> Iterator[Report]:
    """Yield a function that shows the bytes received; the bar appears with the first of them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    console = Console(stderr=True)
    columns = ('{task.description}', BarColumn(), DownloadColumn(), Speed(), TimeRemainingColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(name, total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
