"""Rank correlations of measures with accuracy, and what choosing a checkpoint by one costs."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from tools.figures import markdown
from ttl_mm.engine.hooks.early_stop_hook import since_best
from ttl_mm.gauges.verdict import verdict
from ttl_mm.report.logs import load_run

RATES = (0.01, 0.1, 0.5)  # that every method was run with
MEASURES = {
    'view_invariance': 'neighbors kept under views', 'stability': 'neighbors kept since last time',
    'rankme': 'RankMe', 'lidar': 'LiDAR', 'spectrum_decay': 'alpha-ReQ',
    'alignment': 'alignment', 'uniformity': 'uniformity', 'train_loss': 'loss',
    'train_spread': 'spread of projections', 'train_rank': 'rank of projections',
}  # fmt: skip
LOGGED = {
    'knn': 'probe/knn_top1', 'linear': 'probe/linear_top1', 'train_loss': 'loss',
    'train_spread': 'spread', 'train_rank': 'rank', 'gauge_rank': 'gauge/effective_rank',
}  # fmt: skip
IN_STUDY = {
    'train_loss': 'loss', 'train_spread': 'spread of projections',
    'train_rank': 'rank of projections', 'gauge_rank': 'rank of projections, 16 batches',
}  # fmt: skip
STUDY = Path(__file__).resolve().parents[1] / 'efficiency_study/results'
COMPARED = 256 * 10  # images and neighbors behind one value of the measure
ACCURACIES = ('knn', 'linear')
DRAWS = 300
Run = dict[str, Any]


def read(results: Path) -> dict[str, Run]:
    """All runs by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob('*.json'))}


def comparable(runs: dict[str, Run]) -> list[Run]:
    """The runs that see the same views."""
    return [run for name, run in runs.items() if not name.endswith('_views')]


def at_end(runs: Sequence[Run], measure: str, accuracy: str) -> float:
    """Correlation over the ends of runs of all methods."""
    ends = [run['rows'][-1] for run in runs]
    return _correlation([(row.get(measure), row.get(accuracy)) for row in ends])


def within(runs: Sequence[Run], measure: str, accuracy: str) -> float:
    """Mean over methods of the correlation over all times and settings of one method."""
    found = []
    for method in sorted({run['method'] for run in runs}):
        rows = [row for run in runs if run['method'] == method for row in run['rows']]
        found.append(_correlation([(row.get(measure), row.get(accuracy)) for row in rows]))
    return float(np.nanmean(found)) if np.isfinite(found).any() else np.nan


def _correlation(pairs: Sequence[tuple[float | None, float | None]]) -> float:
    known = [(x, y) for x, y in pairs if x is not None and y is not None]
    if len(known) < 3 or any(len(set(values)) < 2 for values in zip(*known)):
        return np.nan
    return float(np.corrcoef([rankdata(values) for values in zip(*known)])[0, 1])  # Spearman's


def with_interval(statistic, runs: Sequence[Run], measure: str, accuracy: str) -> str:
    """The statistic and its 95 % interval over runs drawn with replacement."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(DRAWS):
        some = [runs[i] for i in rng.integers(len(runs), size=len(runs))]
        drawn.append(statistic(some, measure, accuracy))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return f'{statistic(runs, measure, accuracy):+.2f} ({low:+.2f} to {high:+.2f})'


def table(runs: Sequence[Run], measures: Mapping[str, str] = MEASURES) -> str:
    """Every measure against both accuracies, across and within methods."""
    header = ['measure', 'kNN, across', 'linear, across', 'kNN, within', 'linear, within']
    rows = []
    for measure, name in measures.items():
        cells = [
            with_interval(statistic, runs, measure, accuracy)
            for statistic in (at_end, within)
            for accuracy in ACCURACIES
        ]
        rows.append([name, *cells])
    return markdown(header, rows)


def study_runs(study: Path = STUDY) -> list[Run]:
    """The published runs of the efficiency study that learn without labels, as they logged them."""
    found = []
    for folder in sorted(study.glob('*/*')):
        if 'supervised' in folder.name:
            continue
        run = load_run(folder)
        series = {name: dict(zip(*run.series(key))) for name, key in LOGGED.items()}
        steps = sorted(series['knn'])
        rows = [
            {'step': step, **{name: values.get(step) for name, values in series.items()}}
            for step in steps
        ]
        method = re.sub(r'-(seed|lr).*', '', folder.name)
        found.append({'method': method, 'rows': rows})
    return found


def verdict_table(runs: Sequence[Run]) -> str:
    """What the verdict at the end of a run is worth: the gain in accuracy behind each word."""
    gains: dict[str, list[list[float]]] = {}
    for run in runs:
        rows = run['rows']
        kept = [row['view_invariance'] for row in rows]
        errors = [
            row.get('view_invariance_error') or math.sqrt(share * (1 - share) / COMPARED)
            for row, share in zip(rows, kept)
        ]
        word, _ = verdict(kept, errors) or ('none', '')
        gain = [rows[-1][accuracy] - rows[0][accuracy] for accuracy in ACCURACIES]
        gains.setdefault(word, []).append(gain)
    rows = []
    for word, some in sorted(gains.items(), reverse=True):
        means = [f'{np.mean(g):+.1f} ({min(g):+.1f} to {max(g):+.1f})' for g in zip(*some)]
        rows.append([word, len(some), *means])
    return markdown(['verdict', 'runs', 'gain in kNN, mean (range)', 'gain in linear'], rows)


def try_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What ``ttl plan --try`` found, beside what labels say."""
    rows = [
        [
            data,
            row['setting'] + (' (chosen)' if row['chosen'] else ''),
            row['steps'],
            f'{100 * row["kept"]:.1f} ± {100 * row["error"]:.1f}',
            f'{row["knn"]:.1f}',
        ]
        for data, some in found.items()
        for row in some
    ]
    return markdown(['images', 'setting', 'steps', 'neighbors kept, %', 'kNN, %'], rows)


def rate_table(runs: Mapping[str, Run]) -> str:
    """What one gains who starts with a rate, tries two others, and goes by the neighbors kept."""
    methods: dict[str, dict[float, tuple[float, float]]] = {}
    for name, run in runs.items():
        if run['lr'] in RATES and name == f'{run["method"]}-lr{run["lr"]}':
            end = run['rows'][-1]
            methods.setdefault(run['method'], {})[run['lr']] = end['view_invariance'], end['knn']
    rows = []
    for rate in RATES:
        gains = [max(ends.values())[1] - ends[rate][1] for ends in methods.values()]
        most = [max(knn for _, knn in ends.values()) - ends[rate][1] for ends in methods.values()]
        found = f'{np.mean(gains):+.1f} ({min(gains):+.1f} to {max(gains):+.1f})'
        rows.append([rate, len(gains), found, f'{np.mean(most):+.1f}'])
    return markdown(['rate at first', 'methods', 'gain in kNN, mean (range)', 'by labels'], rows)


def regrets(runs: Sequence[Run], measure: str, accuracy: str) -> list[float]:
    """Points lost in each run by the checkpoint with the highest measure, not the most accurate."""
    lost = []
    for run in runs:
        rows = [row for row in run['rows'][1:] if row.get(measure) is not None]
        chosen = max(rows, key=lambda row: row[measure])
        lost.append(max(row[accuracy] for row in rows) - chosen[accuracy])
    return lost


def stopped_at(run: Run, measure: str, patience: int) -> int:
    """Index of the row at which a run ends that waits for ``patience`` measurements."""
    values = [row.get(measure, -math.inf) for row in run['rows']]
    ends = (n for n in range(1, len(values)) if since_best(values[: n + 1]) >= patience)
    return next(ends, len(values) - 1)


def stop_row(runs: Sequence[Run], measure: str, patience: int) -> list[str]:
    """Points lost against the best checkpoint of the whole run, and how much of it was trained."""
    ends = [stopped_at(run, measure, patience) for run in runs]
    cells = []
    for accuracy in ACCURACIES:
        lost = [
            max(row[accuracy] for row in run['rows'][1:]) - run['rows'][end][accuracy]
            for run, end in zip(runs, ends)
        ]
        cells.append(f'{np.mean(lost):.2f} ({max(lost):.1f})')
    trained = [end / (len(run['rows']) - 1) for run, end in zip(runs, ends)]
    return [f'stopped with patience {patience}', *cells, f'{np.mean(trained):.0%}']


def regret_table(runs: Sequence[Run]) -> str:
    """Regret of the choice by each measure, of the last checkpoint, and of stopping early."""
    ordered = [
        {**run, 'rows': [{**row, 'last': row['step']} for row in run['rows']]} for run in runs
    ]
    rows = []
    for measure in ('view_invariance', 'stability', 'rankme', 'last'):
        cells = []
        for accuracy in ACCURACIES:
            lost = regrets(ordered, measure, accuracy)
            cells.append(f'{np.mean(lost):.2f} ({max(lost):.1f})')
        name = f'best by {MEASURES[measure]}' if measure in MEASURES else 'the last checkpoint'
        rows.append([name, *cells, '100%'])
    rows += [stop_row(runs, 'view_invariance', patience) for patience in (1, 2)]
    return markdown(['checkpoint', 'kNN points lost, mean (most)', 'linear', 'trained'], rows)
