"""What a run will reach: a power law through what was measured so far, with calibrated intervals.

The family of curves is :math:`y(s) = y_0 + g s^p`: what a network has gained over its untrained
self grows with a power of the share :math:`s` of the schedule. A run with a schedule of another
length, :math:`s` times this one, is taken to end on the same curve.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ttl_mm.files.plain_json import read_json

LOWEST, HIGHEST = 0.02, 1.0  # exponents
ON_TRACK, BEHIND, COLLAPSE = 'on track', 'behind', 'will collapse'
FROM = 0.2  # of the schedule; intervals are calibrated from there on
LENGTHS = (0.5, 1.0, 2.0)  # of the schedule, that a run is forecast for
EARLY, MIDDLE = 0.3, 0.5  # of the schedule: where a forecast of its end stops being called so
KINDS = ('early', 'middle', 'late', 'shorter', 'longer')


class Tuning(NamedTuple):
    """Constants of a fit and of its uncertainty, chosen by a rule on earlier runs."""

    trust: float  # in the exponent of the reference, against deviations in units of the quantity
    noise: float  # of the gain: uncertainty of a single measured value
    fall: float  # power of the number of values by which that uncertainty falls


@dataclass(frozen=True)
class Reference:
    """What earlier runs say about a quantity.

    Args:
        name: of the quantity, for people.
        exponent: of the curves of earlier runs, which a fit to few values stays close to.
        bounds: quantiles of the scaled errors of earlier forecasts by :func:`kind_of` forecast, a
            low and a high one, see :func:`scaled_error`.
        unit: a difference of this quantity that matters.
        top: the highest value that it can have.
        tuning: constants of the fit and of its uncertainty.
        longer: exponents of the gain between runs with schedules of different length: a low one,
            the median and a high one.
        band: rows (share of the schedule, lowest and highest usual progress there). Progress is
            the gain as a share of what could be gained.
        scale: from logged values to percent.
    """

    name: str
    exponent: float
    bounds: Mapping[str, tuple[float, float]]
    unit: float
    top: float
    tuning: Tuning
    longer: tuple[float, float, float]
    band: Sequence[tuple[float, float, float]]
    scale: float = 1.0


class GainCurve(NamedTuple):
    """A fitted curve, and how much of the schedule it has seen."""

    start: float
    gain: float  # at the end of the schedule
    exponent: float
    seen: float
    values: int = 1  # that were measured after the start

    def at(self, length: float) -> float:
        """The value at a share of the schedule, or at the end of a schedule so much as long."""
        return self.start + self.gain * length**self.exponent

    def uncertainty(self, length: float, unit: float, tuning: Tuning) -> float:
        """The scale of its error there: larger the farther it is from what was seen."""
        noise = tuning.noise / self.values**tuning.fall
        step = abs(length**self.exponent - self.seen**self.exponent)
        return float(np.hypot(self.gain, unit)) * (noise + step)


class Interval(NamedTuple):
    """A forecast and the bounds that hold the outcome in 80 of 100 cases."""

    low: float
    expected: float
    high: float


def fit_gain(shares: ArrayLike, values: ArrayLike, exponent: float, trust: float) -> GainCurve:
    r"""The gain and exponent that fit what was measured.

    Least squares of :math:`y_i - y_0 - g s_i^p` and of ``trust · (p - exponent)``: a single
    value determines the gain, many of them the exponent too.

    Args:
        shares: (N,) of the schedule, ascending; the first is 0, the untrained network.
        values: (N,) measured there.
        exponent: of earlier runs.
        trust: in that exponent: how far a value may be off for a change of the exponent by 1.
    """
    at, found = np.asarray(shares, dtype=float), np.asarray(values, dtype=float)
    if at.shape != found.shape or len(at) < 2 or at[0] != 0 or not (np.diff(at) > 0).all():
        raise ValueError(f'expected values at ascending shares from 0 on: {at}, {found}')
    if not np.isfinite(found).all():
        raise ValueError(f'values must be finite: {found}')
    gains = found[1:] - found[0]

    def gain_for(power: float) -> float:
        return float(gains @ at[1:] ** power / (at[1:] ** power @ at[1:] ** power))

    def cost(power: float) -> float:
        missed = gains - gain_for(power) * at[1:] ** power
        return float(missed @ missed + (trust * (power - exponent)) ** 2)

    from scipy.optimize import minimize_scalar  # half a second, which only this needs

    best = minimize_scalar(
        cost, bounds=(LOWEST, HIGHEST), method='bounded', options={'xatol': 1e-7}
    )
    power = float(best.x)
    return GainCurve(float(found[0]), gain_for(power), power, float(at[-1]), len(gains))


def kind_of(seen: float, length: float) -> str:
    """Which earlier forecasts a forecast is like, one of :data:`KINDS`.

    >>> kind_of(0.25, 1.0), kind_of(0.25, 2.0)
    ('early', 'longer')
    """
    if length != 1:
        return 'shorter' if length < 1 else 'longer'
    return 'early' if seen <= EARLY else 'middle' if seen <= MIDDLE else 'late'


def scaled_error(
    curve: GainCurve, length: float, outcome: float, unit: float, tuning: Tuning
) -> float:
    """How far an outcome is from the forecast, in units of its uncertainty."""
    return (outcome - curve.at(length)) / curve.uncertainty(length, unit, tuning)


def forecast(curve: GainCurve, length: float, reference: Reference) -> Interval:
    """The value at the end of a schedule ``length`` times this one, within what is possible."""
    expected = curve.at(length)
    scale = curve.uncertainty(length, reference.unit, reference.tuning)
    low, high = reference.bounds[kind_of(curve.seen, length)]
    values = expected + scale * low, expected, expected + scale * high
    return Interval(*(float(np.clip(value, 0, reference.top)) for value in values))


def calibrated(errors: Sequence[float], share: float = 0.8) -> tuple[float, float]:
    """Quantiles that hold ``share`` of new errors, as in split conformal prediction.

    With n errors the k-th smallest and k-th largest are taken, k = ⌊(n + 1)(1 - share) / 2⌋.

    >>> calibrated(range(10), share=0.8)  # the smallest and the largest
    (0.0, 9.0)
    """
    ordered = np.sort(np.asarray(errors, dtype=float))
    k = int((len(ordered) + 1) * (1 - share) / 2)
    if k < 1:
        raise ValueError(f'{len(ordered)} errors are too few to calibrate {share:.0%} intervals')
    return float(ordered[k - 1]), float(ordered[-k])


def progress(start: float, value: float, top: float) -> float:
    """The gain as a share of what could be gained; 1 where nothing could.

    >>> progress(40.0, 55.0, 100.0), progress(100.0, 100.0, 100.0)
    (0.25, 1.0)
    """
    return (value - start) / (top - start) if start < top else 1.0


def usual_progress(share: float, reference: Reference) -> tuple[float, float]:
    """The band of the reference at a share of the schedule."""
    at, low, high = np.array([(0, 0, 0), *reference.band], dtype=float).T
    return float(np.interp(share, at, low)), float(np.interp(share, at, high))


def outlook(curve: GainCurve, reference: Reference) -> tuple[str, str]:
    """A verdict, and on what evidence: on track, behind, or will collapse."""
    end = forecast(curve, 1.0, reference)
    if end.high < curve.start:
        evidence = f'even {end.high:.1f} at the end would be below the untrained {curve.start:.1f}'
        return COLLAPSE, evidence
    low, high = usual_progress(curve.seen, reference)
    made = progress(curve.start, curve.at(curve.seen), reference.top)
    evidence = (
        f'{made:.0%} of what could be gained is gained after {curve.seen:.0%} of the schedule; '
        f'{low:.0%} to {high:.0%} is usual there'
    )
    return (BEHIND if made < low else ON_TRACK), evidence


def gain_of_more(length: float, reference: Reference) -> Interval:
    """By which factor the whole gain grows with a schedule ``length`` times as long."""
    return Interval(*(length**exponent for exponent in reference.longer))


class Outlook(NamedTuple):
    """Where a run will end; all values in percent."""

    name: str  # of the quantity, for people
    seen: float  # share of the schedule at the last measurement
    now: float
    ends: dict[float, Interval]  # by LENGTHS
    verdict: str
    evidence: str

    def __str__(self) -> str:
        end = self.ends[1.0]
        bounds = f'{end.expected:.1f} % ({end.low:.1f} to {end.high:.1f})'
        return f'{self.name} {bounds} at the end, {self.verdict}'


def look_ahead(key: str, steps: ArrayLike, values: ArrayLike, length: int) -> Outlook | None:
    """The forecast of a logged quantity, or None where too little is known.

    Args:
        key: Its name in the log, one of :func:`references`.
        steps: (N,) at which it was measured, ascending; 0 is the untrained network.
        values: (N,) as logged; those that are not finite do not count.
        length: Steps of the whole schedule.
    """
    at, found = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    at, found = at[np.isfinite(found)], found[np.isfinite(found)]
    if len(at) < 2 or at[0] != 0 or not FROM <= at[-1] / length <= 1:
        return None
    reference = references()[key]
    found = found * reference.scale
    trust = reference.tuning.trust * reference.unit
    curve = fit_gain(at / length, found, reference.exponent, trust)
    ends = {part: forecast(curve, part, reference) for part in LENGTHS}
    return Outlook(reference.name, curve.seen, float(found[-1]), ends, *outlook(curve, reference))


@cache
def references() -> Mapping[str, Reference]:
    """What the study measured, by the name of the logged quantity.

    ``projects/judge_validation/forecasts.py`` writes the file.
    """
    content = read_json(Path(__file__).with_name('references.json'))
    return {
        name: Reference(
            **{
                **fields,
                'bounds': {kind: tuple(pair) for kind, pair in fields['bounds'].items()},
                'tuning': Tuning(*fields['tuning']),
                'longer': tuple(fields['longer']),
            }
        )
        for name, fields in content.items()
    }
