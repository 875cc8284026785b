"""The page of ``ttl analyze``: clustering of one or several sets of features."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ttl_mm.gauges.analysis import Analysis
from ttl_mm.report.clustering_figures import both_sides_figure, rank_figure
from ttl_mm.report.page import Picture, Section, Table, write_page

LEAD = (
    'Under-clustering: the features do not separate the classes. Over-clustering: images of one '
    'class are pushed apart because they serve as negatives of each other.'
)


def write_analysis(analyses: Mapping[str, Analysis], out_dir: str | Path) -> Path:
    """Write ``index.html``, the figures as PNG and ``analysis.json``; returns the page's path."""
    some = next(iter(analyses.values()))
    page = write_page(
        f'Clustering of {", ".join(analyses)}',
        LEAD,
        [_numbers(analyses), _ranks(analyses), _choice(some)],
        out_dir,
        command='ttl analyze',
    )
    numbers = {name: _plain(analysis) for name, analysis in analyses.items()}
    Path(out_dir, 'analysis.json').write_text(json.dumps(numbers, indent=1) + '\n')
    return page


def _plain(analysis: Analysis) -> dict:
    numbers = asdict(analysis)
    numbers['frequencies'] = {
        rank_name(ranks): {'pr_omega_a': a, 'pr_omega_b': b}
        for ranks, (a, b) in analysis.frequencies.items()
    }
    return numbers


def _numbers(analyses: Mapping[str, Analysis]) -> Section:
    header = ['features', 'class divergence', '(total spread)', 'effective rank', 'std']
    rows = [
        [
            name,
            f'{a.divergence:.3f}',
            f'{a.divergence_total:.3f}',
            f'{a.effective_rank:.1f}',
            f'{a.std:.4f}',
        ]
        for name, a in analyses.items()
    ]
    text = 'The divergence has a meaning in comparison only: higher separates the classes better.'
    return Section('Classes', text, tables=[Table(header, rows)])


def _ranks(analyses: Mapping[str, Analysis]) -> Section:
    some = next(iter(analyses.values()))
    header = ['Pr(Ω|A), Pr(Ω|B)', *(rank_name(ranks) for ranks in some.frequencies)]
    rows = [
        [name, *(f'{a:.3f}, {b:.3f}' for a, b in analysis.frequencies.values())]
        for name, analysis in analyses.items()
    ]
    figure = rank_figure(
        {name: analysis.rates for name, analysis in analyses.items()},
        some.chance,
        some.perfect_rates,
    )
    caption = (
        f'How often the negative at a rank is false, in batches of {some.batch_size} images. '
        'Features that know the classes put all false negatives first.'
    )
    text = (
        'Ω: a batch uses two images of one class as a negative pair. A: all batches; B: those that '
        'hold two images of one class.'
    )
    return Section(
        'False negatives by rank',
        text,
        tables=[Table(header, rows)],
        pictures=[Picture('ranks', figure, caption)],
    )


def _choice(some: Analysis) -> Section:
    m = some.batch_size - 1
    figure = both_sides_figure(m, some.classes, some.risk)
    safe = (
        f'rank {some.safe_k} is the smallest whose chance of a false deputy is at most '
        f'{some.risk:g}'
        if some.safe_k <= m
        else 'no rank is safe: there are too few classes for the batch'
    )
    text = [
        f'With features that know the classes, {safe}. Ranks above it leave room for fewer poles '
        'than classes.',
        f'With these features, rank {some.measured_k} is the first at which negatives are false '
        'no more often than a random pick.'
        if some.measured_k <= m
        else 'With these features, every rank is false more often than a random pick.',
    ]
    caption = f'Both sides of k for {some.classes} balanced classes and {m} negatives.'
    return Section('Choosing k', text, pictures=[Picture('both_sides', figure, caption)])


def rank_name(ranks: tuple[int, int]) -> str:
    """'rank 5', or 'ranks 2..10'."""
    return f'rank {ranks[0]}' if ranks[0] == ranks[1] else f'ranks {ranks[0]}..{ranks[1]}'
