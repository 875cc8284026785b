"""What accuracy is drawn against: epochs, images, time and cost, in units that suit the runs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ttl_mm.report.run import Run


class Axis(NamedTuple):
    """A horizontal axis; ``of`` gives its values for iterations of a run, None if not known."""

    name: str
    label: str
    caption: str
    of: Callable[[Run, np.ndarray], np.ndarray | None]


ITERATIONS = Axis('iterations', 'iterations', 'against iterations', lambda run, at: at)
EPOCHS = Axis('epochs', 'epochs', 'against epochs', Run.epochs)


def cost_axes(runs: Sequence[Run]) -> list[Axis]:
    """Epochs, images and time; cost too, where it is not the same as time."""
    axes = [
        EPOCHS,
        Axis('images', 'images seen', 'against images seen by all devices', Run.images),
        _timed(runs, 'time', '', 'against training time', Run.hours),
    ]
    if any(run.units != 1 for run in runs):
        units = {run.unit for run in runs}
        unit = units.pop() if len(units) == 1 else 'device'
        caption = f'against {unit} hours: training time by all {unit}s at once'
        axes.append(_timed(runs, 'cost', f'{unit} ', caption, Run.cost))
    return axes


def _timed(runs: Sequence[Run], name: str, unit: str, caption: str, hours: Callable) -> Axis:
    if max(hours(run, run.last_iteration) or 0 for run in runs) >= 1.5:
        return Axis(name, f'{unit}hours', caption, hours)

    def minutes(run: Run, at: np.ndarray) -> np.ndarray | None:
        values = hours(run, at)
        return None if values is None else values * 60

    return Axis(name, f'{unit}minutes', caption, minutes)


def duration(hours: float | None, unit: str = '') -> str:
    """A time for people: '8.0 min', '3.2 h', '2.5 days', '3.2 GPU h'."""
    if hours is None:
        return '–'
    scale, name = (60, 'min') if hours < 1.5 else (1, 'h') if hours < 48 else (1 / 24, 'days')
    return ' '.join([f'{hours * scale:.1f}', *([unit] if unit else []), name])
