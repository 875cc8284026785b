"""Charts of curves: drawn by matplotlib for a file, and as data that a page draws itself.

Matplotlib is used without pyplot: no global state, no display, the same look everywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from ttl_mm.report.html import shown

# Okabe and Ito: distinguishable for color-blind readers and in print
COLORS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000']
DASHES = ['-', '--', ':', '-.']
SVG_DASHES = {'-': '', '--': '7 4', ':': '2 3', '-.': '8 3 2 3'}
INK, FAINT = '#22303c', '#8a97a3'
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


def as_label(name: str) -> str:
    """A name as matplotlib shows it: what stands between two dollar signs would be a formula."""
    return shown(name).replace('$', r'\$')


def look_of(index: int) -> dict:
    """Color and dash of run number ``index``; 28 runs look different."""
    dash = DASHES[index // len(COLORS) % len(DASHES)]
    return {'color': COLORS[index % len(COLORS)], 'linestyle': dash}


@dataclass
class Line:
    """A curve, its points (n,) each."""

    name: str
    x: np.ndarray
    y: np.ndarray
    color: str
    linestyle: str


@dataclass
class Chart:
    """Curves that a page shows with values under the pointer, and can switch off one by one."""

    lines: Sequence[Line]
    x_label: str
    y_label: str
    markers: bool = False
    from_zero: bool = False
    log_x: bool = False  # how the axis is drawn first
    log_y: bool = False


def draw(chart: Chart) -> Figure:
    """The chart as a picture; a long legend stands beside the curves."""
    lines = chart.lines
    beside = len(lines) > MAX_INSIDE
    size = (7.2, max(3.2, 0.6 + 0.19 * len(lines))) if beside else ()
    with canvas(*size) as (figure, axes):
        for line in lines:
            marker = 'o' if chart.markers or len(line.y) == 1 else None
            look = {'color': line.color, 'linestyle': line.linestyle}
            label = as_label(line.name)
            axes.plot(line.x, line.y, label=label, marker=marker, markersize=3.5, **look)
        axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
        axes.margins(x=0.02)
        if chart.from_zero:
            axes.set_ylim(bottom=0, top=1.08 * max(line.y.max() for line in lines) or 1)
        if chart.log_x:
            axes.set_xscale('log')
        if chart.log_y:
            axes.set_yscale('log')
        if not chart.log_x and max(line.x.max() for line in lines) >= 1e4:
            axes.xaxis.set_major_formatter(EngFormatter(sep=''))
        if beside:
            figure.legend(loc='outside right upper')
        elif len(lines) > 1:
            axes.legend()
    return figure


def chart_data(chart: Chart) -> dict:
    """What ``chart.js`` draws, as plain values; black becomes the color of the text."""
    lines = [
        {
            'name': shown(line.name),
            'x': [float(f'{v:.6g}') for v in line.x],
            'y': [float(f'{v:.6g}') for v in line.y],
            'color': 'currentColor' if line.color == '#000000' else line.color,
            'dash': SVG_DASHES[line.linestyle],
        }
        for line in chart.lines
    ]
    return {
        'lines': lines, 'xLabel': chart.x_label, 'yLabel': chart.y_label,
        'markers': chart.markers, 'fromZero': chart.from_zero,
        'logX': chart.log_x, 'logY': chart.log_y,
    }  # fmt: skip
