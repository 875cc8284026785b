"""Drawing on matplotlib without pyplot: no global state, no display, the same look everywhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from ttl_mm.report.axes import EPOCHS, ITERATIONS, Axis
from ttl_mm.report.run import Run

# Okabe and Ito: distinguishable for color-blind readers and in print
COLORS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000']
DASHES = ['-', '--', ':', '-.']
INK, FAINT = '#22303c', '#8a97a3'
MAX_POINTS = 500
MAX_INSIDE = 8  # a longer legend would hide the curves

STYLE: dict[Any, Any] = {
    'figure.facecolor': 'white',
    'font.size': 9.5,
    'axes.edgecolor': '#b8c2cb',
    **dict.fromkeys(('text.color', 'axes.labelcolor', 'xtick.color', 'ytick.color'), INK),
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'axes.axisbelow': True,
    'grid.color': '#e6ebef',
    'lines.linewidth': 1.8,
    'legend.frameon': False,
    'legend.fontsize': 8.5,
}


@contextmanager
def canvas(width: float = 4.8, height: float = 3.2, rows: int = 1) -> Iterator[tuple[Figure, Any]]:
    """A figure in the style of the report, sizes in inches, and its axes, one for each row."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout='constrained')
        yield figure, figure.subplots(rows, sharex=True)


def look_of(index: int) -> dict:
    """Color and dash of run number ``index``; 28 runs look different."""
    dash = DASHES[index // len(COLORS) % len(DASHES)]
    return {'color': COLORS[index % len(COLORS)], 'linestyle': dash}


def curves(
    runs: Sequence[Run],
    key: str,
    label: str,
    axis: Axis | None = None,
    markers: bool = False,
    from_zero: bool = False,
) -> Figure | None:
    """One logged quantity of all runs; None where no run has it on that axis.

    The axis is epochs by default, or iterations if the epochs of a run are not known.
    """
    axis = axis or (EPOCHS if all(run.iterations_per_epoch for run in runs) else ITERATIONS)
    lines = [(i, run.name, *_line(run, key, axis)) for i, run in enumerate(runs)]
    lines = [line for line in lines if len(line[2])]
    if not lines:
        return None
    beside = len(lines) > MAX_INSIDE
    size = (7.2, max(3.2, 0.6 + 0.19 * len(lines))) if beside else ()
    with canvas(*size) as (figure, axes):
        for index, name, x, y in lines:
            marker = 'o' if markers or len(y) == 1 else None
            axes.plot(x, y, label=name, marker=marker, markersize=3.5, **look_of(index))
        axes.set(xlabel=axis.label, ylabel=label)
        axes.margins(x=0.02)
        if from_zero:
            axes.set_ylim(bottom=0, top=1.08 * max(y.max() for *_, y in lines) or 1)
        if axis.name == 'images':
            axes.xaxis.set_major_formatter(EngFormatter(sep=''))
        if beside:
            figure.legend(loc='outside right upper')
        elif len(runs) > 1:
            axes.legend()
    return figure


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
