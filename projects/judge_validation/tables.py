"""Rank correlations of measures with accuracy, and what choosing a checkpoint by one costs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from projects.judge_validation.pages import markdown

MEASURES = {
    'view_invariance': 'neighbors kept under views', 'stability': 'neighbors kept since last time',
    'rankme': 'RankMe', 'lidar': 'LiDAR', 'spectrum_decay': 'alpha-ReQ',
    'alignment': 'alignment', 'uniformity': 'uniformity', 'train_loss': 'loss',
    'train_spread': 'spread of projections', 'train_rank': 'rank of projections',
}  # fmt: skip
ACCURACIES = ('knn', 'linear')
DRAWS = 300
Run = dict[str, Any]


def read(results: Path) -> dict[str, Run]:
    """All runs by name; those with other views than the rest are not comparable."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob('*.json'))}


def comparable(runs: dict[str, Run]) -> list[Run]:
    """The runs that see the same views."""
    return [run for name, run in runs.items() if not name.endswith('_views')]


def at_end(runs: Sequence[Run], measure: str, accuracy: str) -> float:
    """Correlation over the ends of runs of all methods."""
    ends = [run['rows'][-1] for run in runs]
    return _correlation([(row.get(measure), row[accuracy]) for row in ends])


def within(runs: Sequence[Run], measure: str, accuracy: str) -> float:
    """Mean over methods of the correlation over all times and settings of one method."""
    found = []
    for method in sorted({run['method'] for run in runs}):
        rows = [row for run in runs if run['method'] == method for row in run['rows']]
        found.append(_correlation([(row.get(measure), row[accuracy]) for row in rows]))
    return float(np.nanmean(found)) if np.isfinite(found).any() else np.nan


def _correlation(pairs: Sequence[tuple[float | None, float]]) -> float:
    known = [(x, y) for x, y in pairs if x is not None]
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


def table(runs: dict[str, Run]) -> str:
    """Every measure against both accuracies, across and within methods."""
    same = comparable(runs)
    header = ['measure', 'kNN, across', 'linear, across', 'kNN, within', 'linear, within']
    rows = []
    for measure, name in MEASURES.items():
        cells = [
            with_interval(statistic, same, measure, accuracy)
            for statistic in (at_end, within)
            for accuracy in ACCURACIES
        ]
        rows.append([name, *cells])
    return markdown(header, rows)


def regrets(runs: Sequence[Run], measure: str, accuracy: str) -> list[float]:
    """Points lost in each run by the checkpoint with the highest measure, not the most accurate."""
    lost = []
    for run in runs:
        rows = [row for row in run['rows'][1:] if row.get(measure) is not None]
        chosen = max(rows, key=lambda row: row[measure])
        lost.append(max(row[accuracy] for row in rows) - chosen[accuracy])
    return lost


def regret_table(runs: dict[str, Run]) -> str:
    """Regret of the choice by each measure of quality, and of taking the last checkpoint."""
    same = comparable(runs)
    ordered = [
        {**run, 'rows': [{**row, 'last': row['step']} for row in run['rows']]} for run in same
    ]
    rows = []
    for measure in ('view_invariance', 'stability', 'rankme', 'last'):
        cells = []
        for accuracy in ACCURACIES:
            lost = regrets(ordered, measure, accuracy)
            cells.append(f'{np.mean(lost):.2f} ({max(lost):.1f})')
        rows.append([MEASURES.get(measure, 'the last checkpoint'), *cells])
    return markdown(['chosen by', 'kNN points lost, mean (most)', 'linear'], rows)
