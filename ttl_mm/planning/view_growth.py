"""Whether views should stay small in a run of given time: chosen from a curve that was measured.

``view_growth.json`` has what views of three quarters of the size gain in kNN accuracy over views of
full size in the same time, at several lengths of training, in steps that a run at full size has in
that time. ``python projects/accuracy_per_hour/race.py publish`` writes it from the committed runs,
which are of small networks on small images: a first choice, not a law.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.files.plain_json import read_json

CURVE = Path(__file__).with_name('view_growth.json')
Sizes = tuple[tuple[float, float], ...]
#: from which part of the run on views have which share of the full size; the full size at the end
#: of the run trains nothing, and tells at which size images are judged
SMALL: Sizes = ((0.0, 0.75), (1.0, 1.0))
FULL: Sizes = ((0.0, 1.0),)


@cache
def measured_curve() -> dict[str, Any]:
    """What stands in ``view_growth.json``."""
    return read_json(CURVE)


def best_sizes(steps: float, curve: dict[str, Any] | None = None) -> Sizes | None:
    """Sizes of views for a time in which a run at full size has so many steps.

    Between the measured lengths the gain is taken to be linear in the logarithm of the steps, below
    them as at the shortest. None where the time is longer than what was measured.
    """
    curve = curve or measured_curve()
    if steps > curve['steps'][-1]:
        return None
    gain = np.interp(np.log(max(steps, 1.0)), np.log(curve['steps']), curve['gain'])
    return SMALL if gain > 0 else FULL


def pixels_of(sizes: Sizes) -> float:
    """Pixels of a run, as a share of those at full size.

    >>> pixels_of(((0.0, 0.5), (0.5, 1.0)))
    0.625
    """
    ends = [start for start, _ in sizes[1:]] + [1.0]
    return sum((end - start) * share**2 for (start, share), end in zip(sizes, ends))
