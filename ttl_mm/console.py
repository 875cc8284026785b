"""What a person sees of a run: a live display on a terminal, readable lines elsewhere.

:class:`Status` holds the numbers, :func:`status_line` and :func:`status_panel` show them, and
:class:`Screen` chooses between the two. Nothing here knows about training.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BLOCKS = '▁▂▃▄▅▆▇█'
SPARKS = 32  # characters of the curve of the loss
HEALTH_STYLES = {'healthy': 'green', 'losing dimensions': 'yellow', 'collapsed': 'bold red'}
VERDICT_STYLES = {'learning': 'green', 'flat': 'yellow', **HEALTH_STYLES}
# A display may take this share of the time at most: after a refresh that took t seconds the next
# one comes t / MAX_SHARE seconds later, or after MIN_PAUSE.
MAX_SHARE = 1 / 800
MIN_PAUSE = 1.0


@dataclass
class Status:
    """Where a run is. None is what is not known, or not measured in this run."""

    step: int
    steps: int
    epoch: int | None = None  # from 1
    epochs: int | None = None
    seconds_left: float | None = None
    images_per_s: float | None = None
    losses: Sequence[float] = field(default_factory=list)  # of the last few hundred steps
    accuracies: dict[str, float] = field(default_factory=dict)  # in percent, by name
    rank: float | None = None  # effective rank of the projections
    health: str | None = None  # a key of HEALTH_STYLES
    verdict: tuple[str, str] | None = None  # a key of VERDICT_STYLES, and the evidence
    forecast: str | None = None
    bad_images: int = 0
    checkpoint: str | None = None  # name of the newest


def status_line(status: Status) -> str:
    """One line of a log that a person can read."""
    share = f'{status.step / max(status.steps, 1):4.0%}'
    where = f'step {status.step}/{status.steps}'
    if status.epoch is not None:
        where = f'epoch {status.epoch}/{status.epochs}  {where}'
    parts = [share, where]
    if len(status.losses):
        parts.append(f'loss {status.losses[-1]:.4f}')
    parts += [f'{name} {value:.1f} %' for name, value in status.accuracies.items()]
    if status.rank is not None:
        parts.append(f'rank {status.rank:.1f}' + (f' ({status.health})' if status.health else ''))
    if status.verdict is not None and status.verdict[0] != status.health:
        parts.append(status.verdict[0])
    if status.forecast is not None:
        parts.append(f'forecast: {status.forecast}')
    if status.images_per_s is not None:
        parts.append(f'{status.images_per_s:.0f} images/s')
    if status.bad_images:
        parts.append(f'{status.bad_images} bad images')
    if status.seconds_left is not None:
        parts.append(f'{duration(status.seconds_left)} left')
    return '  '.join(parts)


def status_panel(status: Status) -> RenderableType:
    """The live display: a bar, and a small table below it."""
    place = f'step {status.step}/{status.steps}'
    if status.epoch is not None:
        place = f'epoch {status.epoch}/{status.epochs}'
    left = '' if status.seconds_left is None else f'{duration(status.seconds_left)} left'
    bar = Table.grid(padding=(0, 2), expand=True)
    for ratio in (None, 1, None, None):
        bar.add_column(ratio=ratio, no_wrap=True)
    progress = ProgressBar(total=max(status.steps, 1), completed=status.step)
    bar.add_row(place, progress, f'{status.step / max(status.steps, 1):.0%}', left)
    rows = Table.grid(padding=(0, 2))
    if len(status.losses):
        rows.add_row('loss', f'{sparkline(status.losses)}  {status.losses[-1]:.4f}')
    for name, value in status.accuracies.items():
        rows.add_row(name, f'{value:.1f} %')
    if status.rank is not None:
        health = status.health or ''
        rank = Text(f'{status.rank:.1f} dimensions  ')
        rows.add_row('rank', rank.append(health, style=HEALTH_STYLES.get(health, '')))
    if status.verdict is not None:
        word, evidence = status.verdict
        text = Text(word, style=VERDICT_STYLES.get(word, ''))
        rows.add_row('verdict', text.append(f': {evidence}', style='default'))
    if status.forecast is not None:
        rows.add_row('forecast', status.forecast)
    if status.images_per_s is not None:
        rows.add_row('speed', f'{status.images_per_s:.0f} images/s')
    rows.add_row('bad images', Text(str(status.bad_images), 'yellow' if status.bad_images else ''))
    rows.add_row('checkpoint', status.checkpoint or 'none yet')
    return Group(bar, rows)


def sparkline(values: Sequence[float], width: int = SPARKS) -> str:
    """A curve in one line of text: means over equal parts, the lowest to the highest block.

    >>> sparkline([0, 1, 2, 7])
    '▁▂▃█'
    """
    numbers = np.asarray(values, dtype=float)  # there may be a million
    means = [part.mean() for part in np.array_split(numbers, min(width, len(numbers)))]
    finite = [mean for mean in means if np.isfinite(mean)]
    low, high = min(finite, default=0), max(finite, default=0)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0
    return ''.join(
        BLOCKS[round((mean - low) * scale)] if np.isfinite(mean) else '!' for mean in means
    )


def duration(seconds: float) -> str:
    """Seconds as people say it.

    >>> duration(9), duration(200), duration(7500), duration(200_000)
    ('9 s', '3 min 20 s', '2 h 5 min', '2 d 8 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f'{whole} s'
    if whole < 3600:
        return f'{whole // 60} min {whole % 60} s'
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f'{minutes // 60} h {minutes % 60} min'
    hours = round(seconds / 3600)
    return f'{hours // 24} d {hours % 24} h'


class Screen:
    """Show the status of a run on stdout, and print lines above it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._live: Live | None = None
        self._next = 0.0  # when the next refresh is due
        self._last_cost = 0.0  # seconds of the last refresh

    @property
    def is_due(self) -> bool:
        """Whether a refresh of the live display may take its share of the time now."""
        return self.is_live and time.perf_counter() >= self._next

    def print(self, text: str) -> None:
        """A line of its own, above the live display."""
        with suppress(OSError, ValueError):  # nobody reads any more, or the disk is full
            self.console.print(text, markup=False)

    def refresh(self, status_of: Callable[[], Status]) -> None:
        """Redraw the live display; finding out the status is part of its cost."""
        began = time.perf_counter()
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
            self.console.show_cursor(True)  # so that a killed run leaves a usable terminal
        with suppress(OSError, ValueError):
            self._live.update(status_panel(status_of()), refresh=True)
        now = time.perf_counter()
        # of the last two, since a single slow one (the first, a busy machine) tells nothing
        cost = min(self._last_cost, now - began)
        self._last_cost = now - began
        self._next = now + max(MIN_PAUSE, cost / MAX_SHARE)

    def close(self) -> None:
        """Leave the last display where it is, and give stdout back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class WarningLines(logging.Handler):
    """Warnings and errors of a logger as plain lines on stdout, without time and level names."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        kind = 'warning' if record.levelno < logging.ERROR else 'error'
        try:  # a live display shows it above itself
            print(f'{kind}: {record.getMessage()}', flush=True)
        except (OSError, ValueError):
            self.handleError(record)
