"""Figures of under- and over-clustering."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ttl_mm.gauges.binomial_tail import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.poles import fewest_poles
from ttl_mm.report.chart import COLORS, FAINT, as_label, canvas, look_of

OVER, UNDER = '#fdf0e7', '#e8f2f8'  # shades of too small and too large k


def rank_figure(
    rates: Mapping[str, Sequence[float]], chance: float, perfect: Sequence[float]
) -> Figure:
    """False-negative rate at ranks 1..m of sets of features, of a random pick, of perfect ones."""
    ranks = np.arange(1, len(perfect) + 1)
    with canvas() as (figure, axes):
        for index, (name, rate) in enumerate(rates.items()):
            axes.plot(ranks, rate, label=as_label(name), **look_of(index))
        axes.plot(ranks, perfect, color='black', linewidth=1, label='perfect features')
        axes.axhline(chance, color=FAINT, linestyle=':', linewidth=1.2, label='random pick')
        axes.set(xscale='log', xlabel='rank of the negative (1 is the hardest)')
        axes.set(ylim=(0, None), ylabel='share of false negatives')
        axes.legend()
        label_ranks(axes.xaxis, len(ranks))
    return figure


def both_sides_figure(
    m: int, classes: int, risk: float = 1e-3, shares: Sequence[float] | None = None
) -> Figure:
    """The two bounds of k: chance of a false deputy above, poles that satisfy the loss below.

    ``shares`` are the fractions of the images that belong to each class; equal by default.
    """
    share = shares or 1 / classes
    safe = smallest_safe_k(m, share, risk)
    ranks = np.arange(1, min(m, max((m + 1) // 2, 2 * safe)) + 1)
    last, chosen = ranks[-1], min(safe, ranks[-1])
    chances = [overclustering_risk(m, int(k), share) for k in ranks]
    poles = [fewest_poles(m, int(k), risk) for k in ranks]
    with canvas(height=4.4, rows=2) as (figure, (above, below)):
        for axes, values, bound, name, color in (
            (above, chances, risk, f'bound {risk:g}', COLORS[1]),
            (below, poles, classes, f'{classes} classes', COLORS[0]),
        ):
            axes.plot(ranks, values, color=color)
            axes.axhline(bound, color=FAINT, linestyle=':', linewidth=1.2)
            axes.annotate(name, (last, bound), ha='right', va='bottom', fontsize=8)
            axes.set(xscale='log', yscale='log', xlim=(1, last))
            axes.axvspan(1, chosen, color=OVER, zorder=0)
            axes.axvspan(chosen, last, color=UNDER, zorder=0)
        above.set(ylim=(1e-12, 3), ylabel='chance of a\nfalse deputy')
        below.set_ylabel('poles that\nsatisfy the loss')
        below.set_xlabel(f'rank k of the deputy, of {m} negatives')
        below.yaxis.set_major_formatter(ScalarFormatter())
        note = {'fontsize': 8, 'va': 'bottom'}
        above.annotate('over-clusters', (1.06, 2e-12), color=COLORS[1], **note)
        if safe < last:
            at = (last * 0.96, 2e-12)
            above.annotate('under-clusters', at, ha='right', color=COLORS[0], **note)
        title = f'smallest safe k: {safe}' if safe <= m else 'no k is safe'
        above.set_title(title, fontsize=9.5)
        label_ranks(below.xaxis, last, chosen)
    return figure


def label_ranks(axis, last: int, *more: int) -> None:
    """Label a logarithmic axis of ranks with plain numbers."""
    usual = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    room = [t for t in usual if t <= last and all(not 0.8 < t / other < 1.25 for other in more)]
    ticks = {*room, *more}
    axis.set_major_formatter(ScalarFormatter())
    axis.set_ticks(sorted(ticks))
    axis.set_ticks([], minor=True)
