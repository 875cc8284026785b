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

NUMBERS = {
    'class divergence': '{.divergence:.3f}',
    '(total spread)': '{.divergence_total:.3f}',
    'effective rank': '{.effective_rank:.1f}',
    'std': '{.std:.4f}',
}


def write_analysis(analyses: Mapping[str, Analysis], out_dir: str | Path) -> Path:
    """Write ``index.html``, the figures as PNG and ``analysis.json``; returns the page's path."""
    sections = [_numbers(analyses), _ranks(analyses), _choice(analyses)]
    title = f'Clustering of {", ".join(analyses)}'
    page = write_page(title, LEAD, sections, out_dir, command='ttl analyze')
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
    rows = [[name, *(form.format(a) for form in NUMBERS.values())] for name, a in analyses.items()]
    text = 'The divergence has a meaning in comparison only: higher separates the classes better.'
    return Section('Classes', text, tables=[Table(['features', *NUMBERS], rows)])


def _ranks(analyses: Mapping[str, Analysis]) -> Section:
    some = next(iter(analyses.values()))
    header = ['Pr(Ω|A), Pr(Ω|B)', *(rank_name(ranks) for ranks in some.frequencies)]
    rows = [
        [name, *(f'{a:.3f}, {b:.3f}' for a, b in analysis.frequencies.values())]
        for name, analysis in analyses.items()
    ]
    rates = {name: analysis.rates for name, analysis in analyses.items()}
    figure = rank_figure(rates, some.chance, some.perfect_rates)
    caption = (
        f'How often the negative at a rank is false, in batches of {some.batch_size} images. '
        'Features that know the classes put all false negatives first.'
    )
    text = (
        'Ω: a batch uses two images of one class as a negative pair. A: all batches; B: those that '
        'hold two images of one class.'
    )
    pictures = [Picture('ranks', figure, caption)]
    return Section('False negatives by rank', text, [Table(header, rows)], pictures)


def _choice(analyses: Mapping[str, Analysis]) -> Section:
    some = next(iter(analyses.values()))
    m = some.batch_size - 1
    figure = both_sides_figure(m, some.classes, some.risk, some.shares)
    safe = 'no rank is safe: there are too few classes for the batch'
    if some.safe_k <= m:
        safe = (
            f'rank {some.safe_k} is the smallest whose chance of a false deputy is at most '
            f'{some.risk:g}. Ranks above it leave room for fewer poles than classes'
        )
    text = [f'With features that know the classes, {safe}.']
    for name, analysis in analyses.items():
        k = analysis.measured_k
        first = f'rank {k} is the first' if k <= m else 'there is no rank'
        text.append(f'{name}: {first} whose negatives are false no more often than a random pick.')
    caption = f'Both sides of k for these {some.classes} classes and {m} negatives.'
    return Section('Choosing k', text, pictures=[Picture('both_sides', figure, caption)])


def rank_name(ranks: tuple[int, int]) -> str:
    """'rank 5', or 'ranks 2..10'."""
    return f'rank {ranks[0]}' if ranks[0] == ranks[1] else f'ranks {ranks[0]}..{ranks[1]}'
