"""The forecast of one run, from its log."""

from typing import NamedTuple

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.gauges.forecast import Interval, fit_gain, forecast, outlook, references
from ttl_mm.report.dumped_config import lookup
from ttl_mm.report.run import Run

KNN = 'probe/knn_top1'
FROM = 0.2  # of the schedule; intervals are calibrated from there on
LENGTHS = {'half the schedule': 0.5, 'this schedule': 1.0, 'twice the schedule': 2.0}


class RunForecast(NamedTuple):
    """What a run will reach."""

    seen: float  # share of the schedule at the last measurement
    now: float
    ends: dict[str, tuple[Interval, float | None]]  # by LENGTHS: accuracy, hours in all
    verdict: str
    evidence: str


def forecast_run(run: Run, steps: int | None = None) -> RunForecast:
    """Forecast the kNN accuracy of a run.

    Args:
        run: Its log.
        steps: Length of its schedule; what its config says by default.
    """
    steps = steps or schedule_of(run)
    if not steps:
        raise UserError(f'{run.name} does not say how long it will be: give --steps.')
    at, values = run.series(KNN)
    at, first = np.unique(at, return_index=True)
    shares = at / steps
    if not len(at) or at[0] != 0 or shares[-1] < FROM:
        found = f'{len(at)} values of {KNN}' + (f' up to {shares[-1]:.0%}' if len(at) else '')
        raise UserError(
            f'{run.name} has {found}: a forecast needs one from before the first step and one from '
            f'at least {FROM:.0%} of the schedule. Train with --labels, or with a ProbeHook.'
        )
    if shares[-1] > 1:
        raise UserError(f'--steps {steps} is too small: the run is at step {at[-1]:.0f} already.')
    reference = references()[KNN]
    curve = fit_gain(shares, values[first], reference.exponent, reference.unit)
    hours = run.hours(at[-1])
    ends = {
        name: (
            forecast(curve, length, reference),
            None if hours is None else float(hours * length / shares[-1]),
        )
        for name, length in LENGTHS.items()
    }
    return RunForecast(
        float(shares[-1]), float(values[first][-1]), ends, *outlook(curve, reference)
    )


def schedule_of(run: Run) -> int | None:
    """Steps of the whole run, by its config."""
    if steps := lookup(run.config, 'train_cfg', 'max_iters'):
        return steps
    if run.max_epochs and run.iterations_per_epoch:
        return run.max_epochs * run.iterations_per_epoch
    return None
