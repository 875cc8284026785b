"""Forecasts of the published runs, each from its first part alone.

    python projects/judge_validation/forecasts.py

Every error is judged by intervals that were calibrated on the other methods. Writes the tables of
docs/judge.md and what the package forecasts by, ``ttl_mm/gauges/references.json``.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from projects.judge_validation.tables import read
from tools.figures import fill, markdown
from ttl_mm.gauges.forecast import (
    FROM,
    KINDS,
    GainCurve,
    Reference,
    Tuning,
    calibrated,
    fit_gain,
    kind_of,
    progress,
    scaled_error,
)
from ttl_mm.gauges.verdict import MEASURE
from ttl_mm.report.logs import load_run

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / 'docs/judge.md'
STUDY = ROOT / 'projects/efficiency_study/results'
VALIDATION = Path(__file__).resolve().parent / 'results'
HELD_OUT = Path(__file__).resolve().parent / 'held_out'
WRITTEN = ROOT / 'ttl_mm/gauges/references.json'
FREE = 7.5e-3  # trust in the first guess of an exponent that is left free
KNN = 'probe/knn_top1'
TOP = 100.0
TRUSTS, NOISES, FALLS = (2.5, 7.5, 22.5), (0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0), (0.0, 0.5)
SHARE = 0.8  # of the outcomes that an interval holds
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

    @property
    def kind(self) -> str:
        """Which forecasts it is like."""
        return kind_of(self.curve.seen, self.length)


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
    runs = read(results).items()
    return [kept_curve(name, run) for name, run in runs if not name.endswith('_views')]


def held_out_curves(results: Path = HELD_OUT) -> list[Curve]:
    """The same of the runs that no constant was chosen on, which have one seed."""
    runs = ((name.partition('-seed')[0], run) for name, run in read(results).items())
    return [kept_curve(name, run)._replace(seed=0) for name, run in runs]


def kept_curve(name: str, run: Mapping[str, Any]) -> Curve:
    """What a run measured after each epoch."""
    steps = np.array([row['step'] for row in run['rows']], dtype=float)
    values = np.array([row[KEPT.key.partition('/')[2]] for row in run['rows']])
    setting = re.sub(r'-(long|lr0\.1)$', '', name)
    epochs = 8 if name.endswith('-long') else 4
    return Curve(setting, epochs, run['seed'], steps / steps[-1], values * KEPT.scale)


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
        fit_gain(c.shares, c.values, 0.5, FREE).exponent for c in curves if c.epochs == longest
    ]
    return float(np.median(found))


def cases(curves: Sequence[Curve], exponent: float, trust: float) -> Iterator[Case]:
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
            fitted = fit_gain(c.shares[:n], c.values[:n], exponent, trust)
            ends = [(1.0, c.values[-1])] if n < len(c.shares) else []
            for length, outcome in [*ends, *others[i]]:
                yield Case(c.family, fitted, length, float(outcome))


def choose_tuning(curves: Sequence[Curve], exponent: float, unit: float) -> Tuning:
    """The constants with the lowest mean interval score; README.md has the rule."""
    found = {trust: list(cases(curves, exponent, trust * unit)) for trust in TRUSTS}
    grid = [Tuning(*some) for some in product(TRUSTS, NOISES, FALLS)]
    return min(grid, key=lambda tuning: mean_score(found[tuning.trust], tuning, unit))


def mean_score(found: Sequence[Case], tuning: Tuning, unit: float) -> float:
    """Mean interval score of the forecasts of each method, calibrated on the other methods.

    The score of an interval is its width, and for an outcome outside of it 2 / (1 - share) times
    the distance besides. Source: Gneiting and Raftery, Strictly Proper Scoring Rules, Prediction,
    and Estimation, 2007.
    """
    families, kinds = (np.array(some) for some in zip(*((c.family, c.kind) for c in found)))
    errors = np.array([error_of(case, unit, tuning) for case in found])
    scales = np.array([case.curve.uncertainty(case.length, unit, tuning) for case in found])
    scores = np.empty(len(found))
    for family, kind in product(set(families), KINDS):
        own = (families == family) & (kinds == kind)
        low, high = calibrated(errors[(families != family) & (kinds == kind)], SHARE)
        outside = np.maximum(low - errors[own], errors[own] - high).clip(min=0)
        scores[own] = high - low + 2 / (1 - SHARE) * outside
    return float((scales * scores).mean())


class Calibration(NamedTuple):
    """What runs say about the forecasts of others."""

    exponent: float
    tuning: Tuning
    bounds: Mapping[str, tuple[float, float]]


def calibrate(curves: Sequence[Curve], unit: float) -> Calibration:
    """Exponent, constants, and quantiles of the errors of each kind of forecast."""
    exponent = usual_exponent(curves)
    tuning = choose_tuning(curves, exponent, unit)
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for case in cases(curves, exponent, tuning.trust * unit):
        errors[case.kind].append(error_of(case, unit, tuning))
    return Calibration(exponent, tuning, {k: calibrated(e, SHARE) for k, e in errors.items()})


class Judged(NamedTuple):
    """A forecast, whether its interval holds the outcome, and how wide it is."""

    case: Case
    inside: bool
    width: float

    @property
    def figures(self) -> tuple[bool, float, float]:
        """Inside, width, and the error of the expected value."""
        case = self.case
        return self.inside, self.width, abs(case.outcome - case.curve.at(case.length))


def judged(curves: Sequence[Curve], unit: float, by: Calibration) -> Iterator[Judged]:
    """Forecasts of runs by what others say."""
    for case in cases(curves, by.exponent, by.tuning.trust * unit):
        low, high = by.bounds[case.kind]
        width = (high - low) * case.curve.uncertainty(case.length, unit, by.tuning)
        yield Judged(case, low <= error_of(case, unit, by.tuning) <= high, width)


@cache
def held_out_methods(quantity: Quantity) -> Sequence[Judged]:
    """All forecasts; constants, exponent and quantiles come from the other methods alone."""
    curves, unit = CURVES[quantity](), quantity.unit
    found: list[Judged] = []
    for family in sorted({c.family for c in curves}):
        by = calibrate([c for c in curves if c.family != family], unit)
        found += judged([c for c in curves if c.family == family], unit, by)
    return found


def error_of(case: Case, unit: float, tuning: Tuning) -> float:
    return scaled_error(case.curve, case.length, case.outcome, unit, tuning)


def reference(quantity: Quantity) -> Reference:
    """What the package forecasts by, from all runs."""
    curves, unit = CURVES[quantity](), quantity.unit
    exponent, tuning, bounds = calibrate(curves, unit)
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
    return Reference(
        quantity.name,
        round(exponent, 3),
        {kind: (round(low, 3), round(high, 3)) for kind, (low, high) in bounds.items()},
        unit,
        TOP,
        tuning,
        tuple(round(float(x), 3) for x in longer),
        rounded,
        quantity.scale,
    )


def table(quantity: Quantity) -> str:
    """Coverage and width of the intervals, by length of the forecast and part that was seen."""
    found: dict[tuple[float, float], list[tuple[bool, float, float]]] = {}
    for one in held_out_methods(quantity):
        key = (round(one.case.length, 2), round(one.case.curve.seen, 2))
        found.setdefault(key, []).append(one.figures)
    rows = []
    for (length, seen), some in sorted(found.items(), key=lambda item: (item[0][0] != 1, item[0])):
        rows.append([_length(length), f'{seen:.0%}', len(some), *_figures(some)])
    ends = [row for (length, _), some in found.items() if length == 1 for row in some]
    rows.append(['**end of the schedule**', 'all', len(ends), *_figures(ends)])
    every = [row for some in found.values() for row in some]
    rows.append(['**all**', 'all', len(every), *_figures(every)])
    header = ['forecast of', 'seen', 'forecasts', 'inside', 'median width', 'median error']
    return markdown(header, rows)


def kinds_table() -> str:
    """Coverage and width by kind of forecast, for both quantities."""
    header, rows = ['forecast', 'of', 'forecasts', 'inside', 'median width', 'median error'], []
    for quantity in CURVES:
        found = held_out_methods(quantity)
        for kind in KINDS:
            some = [one.figures for one in found if one.case.kind == kind]
            rows.append([kind, quantity.name, len(some), *_figures(some)])
    return markdown(header, rows)


def runs_table() -> str:
    """The same of the runs of ``held_out``, by what the package forecasts by."""
    by = calibrate(kept_curves(), KEPT.unit)
    found = list(judged(held_out_curves(), KEPT.unit, by))
    ends = [one for one in found if one.case.length == 1]
    rows = []
    for name, some in (('end of the schedule', ends), ('all', found)):
        rows.append([name, len(some), *_figures([one.figures for one in some])])
    return markdown(['forecast of', 'forecasts', 'inside', 'median width', 'median error'], rows)


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
    tables |= {'kinds': kinds_table(), 'held-out runs': runs_table()}
    for text in tables.values():
        print(text)
    fill(DOCS, tables)


if __name__ == '__main__':
    main()
