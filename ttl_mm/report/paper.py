"""The paper's printed results: its tables, and a section apart from anything measured."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ttl_mm.report.chart import COLORS, FAINT, canvas
from ttl_mm.report.page import Picture, Section

NOTE = (
    'Printed in the paper, not measured here: ImageNet, ResNet-50, 224 pixels. Hollow marks stand '
    'for published values; nothing on these figures compares with the runs above.'
)
LABELED = ('SimCLR', 'MoCo v2', 'BYOL', 'SimSiam', 'SwAV', 'truncated triplet')


class Published(NamedTuple):
    """One printed cell."""

    table: str
    method: str
    variant: str
    metric: str
    value: float
    epochs: int | None
    ours: bool


@cache
def paper_tables() -> tuple[Published, ...]:
    """Every cell of every table of the paper."""
    text = files('ttl_mm.report').joinpath('data/paper_tables.csv').read_text('utf-8')
    return tuple(
        Published(
            row['table'],
            row['method'].replace('_', ' '),
            row['variant'],
            row['metric'],
            float(row['value']),
            int(row['ssl_epochs']) if row['ssl_epochs'] else None,
            row['ours'] == '1',
        )
        for row in csv.DictReader(text.splitlines())
    )


def published(table: str, **columns) -> list[Published]:
    """Cells of one table ('T2_imagenet_linear', ...) whose columns have the given values."""
    wanted = {'table': table, **columns}.items()
    return [c for c in paper_tables() if all(getattr(c, name) == v for name, v in wanted)]


def paper_section() -> Section:
    """Published accuracy by epochs and published false-negative frequencies."""
    omega = 'Batches with a false negative, Pr(Ω|A), at epochs 0 and 180, Table 6.'
    return Section(
        'As published in the paper',
        NOTE,
        pictures=[
            Picture('published_linear', linear_figure(), 'Linear evaluation on ImageNet, Table 2.'),
            Picture('published_omega', omega_figure(), omega),
        ],
    )


def linear_figure() -> Figure:
    """Published top-1 by pre-training epochs."""
    cells = [c for c in published('T2_imagenet_linear') if c.epochs]
    with canvas() as (figure, axes):
        others = [c for c in cells if c.method not in LABELED and c.method != 'supervised']
        points = [c.epochs for c in others], [c.value for c in others]
        axes.scatter(*points, facecolors='none', edgecolors=FAINT, s=24, label='earlier methods')
        hollow = {'markerfacecolor': 'white', 'markersize': 6, 'linestyle': ':', 'linewidth': 1}
        for color, method in zip(reversed(COLORS[: len(LABELED)]), LABELED):
            curve = zip(*sorted((c.epochs, c.value) for c in cells if c.method == method))
            axes.plot(*curve, 'o', color=color, label=method, **hollow)
        supervised = max(c.value for c in cells if c.method == 'supervised' and c.epochs == 100)
        axes.axhline(supervised, color=FAINT, linewidth=1)
        text = f'supervised, 100 epochs: {supervised:g}'
        axes.annotate(text, (105, supervised), va='bottom', fontsize=8)
        axes.set(xscale='log', xlabel='pre-training epochs', ylim=(44, 79))
        axes.set_ylabel('top-1 (%), as published')
        axes.set_xticks([100, 200, 400, 800], minor=False)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.minorticks_off()
        axes.legend(ncols=2, loc='lower right', fontsize=8)
    return figure


def omega_figure() -> Figure:
    """Published Pr(Omega|A) for three ranks at two epochs."""
    with canvas() as (figure, axes):
        for row, variant in enumerate(('k=1', 'k=5', 'k=52')):
            for offset, epochs, hatch in ((-0.19, 0, ''), (0.19, 180, '////')):
                (cell,) = published(
                    'T6_overclustering', variant=variant, metric='pr_omega_given_A', epochs=epochs
                )
                at, label = row + offset, f'epoch {epochs}' if row == 0 else None
                style = {'facecolor': 'white', 'edgecolor': COLORS[0], 'hatch': hatch}
                axes.bar(at, cell.value, width=0.34, label=label, **style)
                text = {'ha': 'center', 'va': 'bottom', 'fontsize': 8}
                axes.annotate(f'{cell.value:g}', (at, cell.value), **text)
        axes.set_xticks(range(3), ['k = 1', 'k = 5', 'k = 52'])
        axes.grid(axis='x', visible=False)
        axes.set_ylabel('Pr(Ω|A), as published')
        axes.legend()
    return figure
