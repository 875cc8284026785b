"""What hooks have measured of the features so far, for those that judge a run by its whole curve.

The log of mmengine forgets old values and does not know at which step one was measured.
"""

from collections.abc import Sequence

KEY = 'measured'


def remember(runner, name: str, step: int, value: float) -> None:
    """Add a value to the curve of ``name``; a checkpoint keeps it."""
    curves = dict(runner.message_hub.runtime_info.get(KEY, {}))
    curve = [list(point) for point in curves.get(name, []) if point[0] < step]
    curves[name] = [*curve, [step, float(value)]]
    runner.message_hub.update_info(KEY, curves)


def curve_of(runner, name: str) -> Sequence[tuple[int, float]]:
    """The steps and values of ``name`` so far."""
    curves = runner.message_hub.runtime_info.get(KEY, {})
    return [(int(step), float(value)) for step, value in curves.get(name, [])]
