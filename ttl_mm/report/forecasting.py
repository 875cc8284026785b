"""The forecast of one run, from its log."""

from typing import NamedTuple

import numpy as np

from ttl_mm.errors import UserError, counted
from ttl_mm.gauges.forecast import FROM, Outlook, look_ahead, references
from ttl_mm.report.dumped_config import lookup
from ttl_mm.report.run import Run


class RunForecast(NamedTuple):
    """What a run will reach, and how long it takes."""

    outlook: Outlook
    hours: dict[float, float | None]  # in all, by the lengths of the outlook


def forecast_run(run: Run, steps: int | None = None) -> RunForecast:
    """Forecast the kNN accuracy of a run, or without labels what :class:`JudgeHook` measures.

    Args:
        run: Its log.
        steps: Length of its schedule; what its config says by default.
    """
    if steps is None and (planned := schedule_of(run)):
        steps = max(planned, run.last_iteration)  # --hours may have made the run longer
    if not steps:
        raise UserError(f'{run.name} does not say how long it will be: give --steps.')
    found = []
    for key in references():  # accuracy first
        at, values = run.series(key)
        at, first = np.unique(at, return_index=True)
        if len(at) and at[-1] > steps:
            raise UserError(
                f'--steps {steps} is too small: the run is at step {at[-1]:.0f} already.'
            )
        if outlook := look_ahead(key, at, values[first], steps):
            hours = run.hours(at[-1])
            lengths = {
                part: None if hours is None else float(hours * part / outlook.seen)
                for part in outlook.ends
            }
            return RunForecast(outlook, lengths)
        reach = f' up to {at[-1] / steps:.0%}' if len(at) else ''
        found.append(f'{counted(len(at), "value")} of {key}{reach}')
    raise UserError(
        f'{run.name} has {" and ".join(found)}: a forecast needs one from before the first step '
        f'and one from at least {FROM:.0%} of the schedule. `ttl train` logs them as far as '
        'they take no more than 1% of the run, so a short run has few or none; a config needs a '
        'ttl_mm.JudgeHook, or with labels a ttl_mm.ProbeHook.'
    )


def schedule_of(run: Run) -> int | None:
    """Steps of the whole run, by its config."""
    if steps := lookup(run.config, 'train_cfg', 'max_iters'):
        return steps
    if run.max_epochs and run.iterations_per_epoch:
        return run.max_epochs * run.iterations_per_epoch
    return None
