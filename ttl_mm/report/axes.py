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
        unit = 'GPU ' if all(run.on_gpu for run in runs) else 'core '
        unit = unit if len({run.on_gpu for run in runs}) == 1 else 'device '
        caption = f'against {unit}hours: training time by all {unit.strip()}s at once'
        axes.append(_timed(runs, 'cost', unit, caption, Run.cost))
    return axes


def _timed(runs: Sequence[Run], name: str, unit: str, caption: str, hours: Callable) -> Axis:
    longest = max((_last(hours, run) for run in runs), default=0)
    if longest >= 1.5:
        return Axis(name, f'{unit}hours', caption, hours)

    def minutes(run: Run, at: np.ndarray) -> np.ndarray | None:
        values = hours(run, at)
        return None if values is None else values * 60

    return Axis(name, f'{unit}minutes', caption, minutes)


def _last(hours: Callable, run: Run) -> float:
    values = hours(run, np.array([float(run.last_iteration)]))
    return 0.0 if values is None else float(values[0])


def duration(hours: float | None, unit: str = '') -> str:
    """A time for people: '8 min', '3.2 h', '2.5 days', '3.2 GPU h'."""
    if hours is None:
        return '–'
    if hours < 1.5:
        value, name = hours * 60, 'min'
    else:
        value, name = (hours, 'h') if hours < 48 else (hours / 24, 'days')
    return f'{value:.1f} {unit} {name}' if unit else f'{value:.1f} {name}'
