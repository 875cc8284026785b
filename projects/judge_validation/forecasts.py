"""Forecasts of the published runs, each from its first part alone.

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
from projects.judge_validation.tables import read
from ttl_mm.gauges.forecast import (
    FROM,
    GainCurve,
    Reference,
    calibrated,
    fit_gain,
    progress,
    scaled_error,
)
from ttl_mm.gauges.verdict import MEASURE
from ttl_mm.report.logs import load_run

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / 'projects/efficiency_study/results'
VALIDATION = Path(__file__).resolve().parent / 'results'
WRITTEN = ROOT / 'ttl_mm/gauges/references.json'
KNN = 'probe/knn_top1'
TOP = 100.0
FAMILIES = ('simclr', 'direct', 'moco', 'byol', 'simsiam', 'swav')


class Quantity(NamedTuple):
    """What is forecast, in percent."""

    key: str  # in the log
    name: str
    unit: float  # points
    scale: float  # from logged values to percent


ACCURACY = Quantity(KNN, 'kNN top-1', 4.0, 1.0)
KEPT = Quantity(MEASURE, 'neighbors kept under views', 2.0, 100.0)


class Curve(NamedTuple):
    """One published run."""

    setting: str  # method or ablation, without rate and seed
    epochs: int
    seed: int
    shares: np.ndarray  # of the schedule, from 0 to 1
    values: np.ndarray  # in percent

    @property
    def family(self) -> str:
        """Methods that differ in a setting alone are one method."""
        return next((name for name in FAMILIES if name in self.setting), 'ttl')


class Case(NamedTuple):
    """One forecast: from which run, from how much of it, for which length, what came out."""

    family: str
    curve: GainCurve
    length: float
    outcome: float


def accuracy_curves(study: Path = STUDY) -> list[Curve]:
    """Accuracy of kNN in all published runs of the efficiency study that learn without labels."""
    found = []
    for folder in sorted(study.glob('*/*')):
        if 'supervised' not in folder.name:
            iterations, values = load_run(folder).series(KNN)
            setting, _, seed = re.sub(r'-lr.*', '', folder.name).partition('-seed')
            epochs = 10 if folder.parent.name == 'methods' else 4
            shares = iterations / iterations[-1]
            found.append(Curve(setting, epochs, int(seed or 0), shares, values))
    return found


def kept_curves(results: Path = VALIDATION) -> list[Curve]:
    """Neighbors kept under views, of all runs of the validation with the same views."""
    found = []
    for name, run in read(results).items():
        if name.endswith('_views'):
            continue
        steps = np.array([row['step'] for row in run['rows']], dtype=float)
        values = np.array([row[KEPT.key.partition('/')[2]] for row in run['rows']])
        setting = re.sub(r'-(long|lr0\.1)$', '', name)
        epochs = 8 if name.endswith('-long') else 4
        found.append(Curve(setting, epochs, run['seed'], steps / steps[-1], values * KEPT.scale))
    return found


CURVES = {ACCURACY: accuracy_curves, KEPT: kept_curves}


def pairs(curves: Sequence[Curve]) -> Iterator[tuple[int, int]]:
    """Indices of the short and the long run of the same setting and seed."""
    longest = max(c.epochs for c in curves)
    for i, long in enumerate(curves):
        same = [
            j
            for j, c in enumerate(curves)
            if (c.setting, c.seed) == (long.setting, 0) and c.epochs < long.epochs
        ]
        if long.epochs == longest and long.seed == 0 and same:
            # the rate that the search chose
            yield max(same, key=lambda j: curves[j].values[-1]), i


def usual_exponent(curves: Sequence[Curve]) -> float:
    """Median of the exponents that fit whole runs of the longest kind best, the fit left free."""
    longest = max(c.epochs for c in curves)
    found = [
        fit_gain(c.shares, c.values, 0.5, unit=1e-3).exponent for c in curves if c.epochs == longest
    ]
    return float(np.median(found))


def cases(curves: Sequence[Curve], exponent: float, unit: float) -> Iterator[Case]:
    """Every forecast that the published runs allow."""
    others: dict[int, list[tuple[float, float]]] = {i: [] for i in range(len(curves))}
    for short, long in pairs(curves):
        ratio = curves[long].epochs / curves[short].epochs
        others[short].append((ratio, curves[long].values[-1]))
        others[long].append((1 / ratio, curves[short].values[-1]))
    for i, c in enumerate(curves):
        for n in range(2, len(c.shares) + 1):
            if c.shares[n - 1] < FROM:
                continue
            fitted = fit_gain(c.shares[:n], c.values[:n], exponent, unit)
            ends = [(1.0, c.values[-1])] if n < len(c.shares) else []
            for length, outcome in [*ends, *others[i]]:
                yield Case(c.family, fitted, length, float(outcome))


def coverage(curves: Sequence[Curve], unit: float) -> Iterator[tuple[Case, bool, float]]:
    """Each forecast, whether its interval holds the outcome, and how wide the interval is.

    Exponent and quantiles come from the other methods alone.
    """
    for family in sorted({c.family for c in curves}):
        others = [c for c in curves if c.family != family]
        exponent = usual_exponent(others)
        errors = [error_of(case, unit) for case in cases(others, exponent, unit)]
        low, high = calibrated(errors)
        for case in cases([c for c in curves if c.family == family], exponent, unit):
            width = (high - low) * case.curve.uncertainty(case.length, unit)
            yield case, low <= error_of(case, unit) <= high, width


def error_of(case: Case, unit: float) -> float:
    return scaled_error(case.curve, case.length, case.outcome, unit)


def reference(quantity: Quantity) -> Reference:
    """What the package forecasts by, from all runs."""
    curves, unit = CURVES[quantity](), quantity.unit
    exponent = usual_exponent(curves)
    low, high = calibrated([error_of(case, unit) for case in cases(curves, exponent, unit)])
    growth = []
    for short, long in pairs(curves):
        some = curves[short], curves[long]
        gains = [max(run.values[-1] - run.values[0], 0.1 * unit) for run in some]
        growth.append(np.log(gains[1] / gains[0]) / np.log(some[1].epochs / some[0].epochs))
    longer = np.quantile(growth, [0.1, 0.5, 0.9])
    longest = [c for c in curves if c.epochs == max(c.epochs for c in curves)]
    band = []
    for i, share in enumerate(longest[0].shares[1:], 1):
        made = [progress(c.values[0], c.values[i], TOP) for c in longest]
        band.append((share, *np.quantile(made, [0.1, 0.9])))
    rounded = [tuple(round(float(x), 3) for x in row) for row in band]
    numbers = (round(float(x), 3) for x in (exponent, low, high))
    return Reference(
        quantity.name,
        *numbers,
        unit,
        TOP,
        tuple(round(float(x), 3) for x in longer),
        rounded,
        quantity.scale,
    )


def table(quantity: Quantity) -> str:
    """Coverage and width of the intervals, by length of the forecast and part that was seen."""
    found: dict[tuple[float, float], list[tuple[bool, float, float]]] = {}
    for case, inside, width in coverage(CURVES[quantity](), quantity.unit):
        error = abs(case.outcome - case.curve.at(case.length))
        key = (round(case.length, 2), round(case.curve.seen, 2))
        found.setdefault(key, []).append((inside, width, error))
    rows = []
    for (length, seen), some in sorted(found.items(), key=lambda item: (item[0][0] != 1, item[0])):
        rows.append([_length(length), f'{seen:.0%}', len(some), *_figures(some)])
    ends = [row for (length, _), some in found.items() if length == 1 for row in some]
    rows.append(['**end of the schedule**', 'all', len(ends), *_figures(ends)])
    every = [row for some in found.values() for row in some]
    rows.append(['**all**', 'all', len(every), *_figures(every)])
    header = ['forecast of', 'seen', 'forecasts', 'inside', 'median width', 'median error']
    return markdown(header, rows)


def _length(length: float) -> str:
    if length == 1:
        return 'end of the schedule'
    return f'{length:g} of it' if length < 1 else f'{length:g} times the schedule'


def _figures(some: Sequence[tuple[bool, float, float]]) -> list[str]:
    inside, width, error = np.array(some, dtype=float).T
    return [f'{inside.mean():.0%}', f'{np.median(width):.1f}', f'{np.median(error):.1f}']


def main() -> None:
    content = {quantity.key: asdict(reference(quantity)) for quantity in CURVES}
    WRITTEN.write_text(json.dumps(content, indent=1) + '\n')
    tables = {'forecasts': table(ACCURACY), 'forecasts of the measure': table(KEPT)}
    for text in tables.values():
        print(text)
    fill(DOCS, tables)


if __name__ == '__main__':
    main()
