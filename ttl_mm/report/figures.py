"""Curves of runs."""

from collections.abc import Sequence

import numpy as np

from ttl_mm.report.axes import EPOCHS, ITERATIONS, Axis
from ttl_mm.report.chart import Chart, Line, look_of
from ttl_mm.report.run import Run

MAX_POINTS = 500


def curves(
    runs: Sequence[Run],
    key: str,
    label: str,
    axis: Axis | None = None,
    markers: bool = False,
    from_zero: bool = False,
) -> Chart | None:
    """One logged quantity of all runs; None where no run has it on that axis.

    The axis is epochs by default, or iterations if the epochs of a run are not known.
    """
    axis = axis or (EPOCHS if all(run.iterations_per_epoch for run in runs) else ITERATIONS)
    lines = [
        Line(run.name, *_line(run, key, axis), **look_of(index)) for index, run in enumerate(runs)
    ]
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return None
    return Chart(lines, axis.label, label, markers=markers, from_zero=from_zero)


def _line(run: Run, key: str, axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    iterations, values = run.series(key)
    x = axis.of(run, iterations)
    return thinned(x, values) if x is not None else (iterations[:0], values[:0])


def thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most ``MAX_POINTS`` points, each the mean of as many neighbors."""
    if len(x) <= MAX_POINTS:
        return x, y
    groups = np.array_split(np.arange(len(x)), MAX_POINTS)
    return np.array([x[g].mean() for g in groups]), np.array([y[g].mean() for g in groups])
