"""Forecasts of the published runs of the efficiency study, each from its first part alone.

    python projects/judge_validation/forecasts.py

Every error is judged by intervals that were calibrated on the other methods. Writes the tables of
docs/judge.md and what the package forecasts by, ``ttl_mm/gauges/references.json``.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from projects.judge_validation.pages import DOCS, fill, markdown
from ttl_mm.gauges.forecast import (
    GainCurve,
    Reference,
    calibrated,
    fit_gain,
    progress,
    scaled_error,
)
from ttl_mm.report.logs import load_run

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / 'projects/efficiency_study/results'
WRITTEN = ROOT / 'ttl_mm/gauges/references.json'
KNN = 'probe/knn_top1'
UNIT, TOP = 4.0, 100.0  # points of accuracy
LONG, SHORT = 'methods', ('search', 'ablations')  # 10 epochs, and 4
RATIO = 2.5
FROM = 0.2  # of a run


class Curve(NamedTuple):
    """Accuracy of one published run."""

    kind: str
    setting: str  # method or ablation, without rate and seed
    name: str
    shares: np.ndarray  # of the schedule, from 0 to 1
    values: np.ndarray

    @property
    def family(self) -> str:
        """Methods that differ in a setting alone are one method."""
        for name in ('simclr', 'direct', 'moco', 'byol', 'simsiam', 'swav'):
            if name in self.setting:
                return name
        return 'ttl'


class Case(NamedTuple):
    """One forecast: from which run, from how much of it, for which length, what came out."""

    family: str
    curve: GainCurve
    length: float
    outcome: float


def read_curves(study: Path = STUDY) -> list[Curve]:
    """All published runs that learn without labels."""
    found = []
    for folder in sorted(study.glob('*/*')):
        if 'supervised' not in folder.name:
            iterations, values = load_run(folder).series(KNN)
            setting = re.sub(r'-(seed|lr).*', '', folder.name)
            shares = iterations / iterations[-1]
            found.append(Curve(folder.parent.name, setting, folder.name, shares, values))
    return found


def pairs(curves: Sequence[Curve]) -> Iterator[tuple[Curve, Curve]]:
    """The short and the long run of the same setting and seed."""
    for long in curves:
        if long.kind == LONG and long.name.endswith('seed0'):
            same = [c for c in curves if c.kind in SHORT and c.setting == long.setting]
            yield max(same, key=lambda c: c.values[-1]), long  # the rate that the search chose


def usual_exponent(curves: Sequence[Curve]) -> float:
    """Median of the exponents that fit whole runs of 10 epochs best, the fit left free."""
    found = [
        fit_gain(c.shares, c.values, 0.5, unit=1e-3).exponent for c in curves if c.kind == LONG
    ]
    return float(np.median(found))


def cases(curves: Sequence[Curve], exponent: float) -> Iterator[Case]:
    """Every forecast that the published runs allow."""
    others: dict[str, list[tuple[float, float]]] = {c.kind + c.name: [] for c in curves}
    for short, long in pairs(curves):
        others[short.kind + short.name].append((RATIO, long.values[-1]))
        others[long.kind + long.name].append((1 / RATIO, short.values[-1]))
    for c in curves:
        for n in range(2, len(c.shares) + 1):
            if c.shares[n - 1] < FROM:
                continue
            fitted = fit_gain(c.shares[:n], c.values[:n], exponent, UNIT)
            ends = [(1.0, c.values[-1])] if n < len(c.shares) else []
            for length, outcome in [*ends, *others[c.kind + c.name]]:
                yield Case(c.family, fitted, length, float(outcome))


def coverage(curves: Sequence[Curve]) -> Iterator[tuple[Case, bool, float]]:
    """Each forecast, whether its interval holds the outcome, and how wide the interval is.

    Exponent and quantiles come from the other methods alone.
    """
    for family in sorted({c.family for c in curves}):
        others = [c for c in curves if c.family != family]
        exponent = usual_exponent(others)
        errors = [error_of(case) for case in cases(others, exponent)]
        low, high = calibrated(errors)
        for case in cases([c for c in curves if c.family == family], exponent):
            width = (high - low) * case.curve.uncertainty(case.length, UNIT)
            yield case, low <= error_of(case) <= high, width


def error_of(case: Case) -> float:
    return scaled_error(case.curve, case.length, case.outcome, UNIT)


def reference(curves: Sequence[Curve]) -> Reference:
    """What the package forecasts by, from all runs."""
    exponent = usual_exponent(curves)
    low, high = calibrated([error_of(case) for case in cases(curves, exponent)])
    growth = []
    for short, long in pairs(curves):
        gains = [(run.values[-1] - run.values[0]) for run in (short, long)]
        growth.append(np.log(gains[1] / gains[0]) / np.log(RATIO))
    longer = np.quantile(growth, [0.1, 0.5, 0.9])
    long_runs = [c for c in curves if c.kind == LONG]
    band = []
    for i, share in enumerate(long_runs[0].shares[1:], 1):
        made = [progress(c.values[0], c.values[i], TOP) for c in long_runs]
        band.append((share, *np.quantile(made, [0.1, 0.9])))
    rounded = [tuple(round(float(x), 3) for x in row) for row in band]
    numbers = (round(float(x), 3) for x in (exponent, low, high))
    return Reference(*numbers, UNIT, TOP, tuple(round(float(x), 3) for x in longer), rounded)


def table(curves: Sequence[Curve]) -> str:
    """Coverage and width of the intervals, by length of the forecast and part that was seen."""
    found: dict[tuple[float, float], list[tuple[bool, float, float]]] = {}
    for case, inside, width in coverage(curves):
        error = abs(case.outcome - case.curve.at(case.length))
        key = (case.length, round(case.curve.seen, 2))
        found.setdefault(key, []).append((inside, width, error))
    names = {1.0: 'end of the schedule', RATIO: '2.5 times the schedule', 0.4: '0.4 of it'}
    rows = []
    for (length, seen), some in sorted(found.items(), key=lambda item: (item[0][0] != 1, item[0])):
        rows.append([names[length], f'{seen:.0%}', len(some), *_figures(some)])
    ends = [row for (length, _), some in found.items() if length == 1 for row in some]
    rows.append(['**end of the schedule**', 'all', len(ends), *_figures(ends)])
    every = [row for some in found.values() for row in some]
    rows.append(['**all**', 'all', len(every), *_figures(every)])
    header = ['forecast of', 'seen', 'forecasts', 'inside', 'median width', 'median error']
    return markdown(header, rows)


def _figures(some: Sequence[tuple[bool, float, float]]) -> list[str]:
    inside, width, error = np.array(some, dtype=float).T
    return [f'{inside.mean():.0%}', f'{np.median(width):.1f}', f'{np.median(error):.1f}']


def main() -> None:
    curves = read_curves()
    content = json.loads(WRITTEN.read_text()) if WRITTEN.is_file() else {}
    content[KNN] = asdict(reference(curves))
    WRITTEN.write_text(json.dumps(content, indent=1) + '\n')
    text = table(curves)
    print(text)
    fill(DOCS, {'forecasts': text})


if __name__ == '__main__':
    main()
