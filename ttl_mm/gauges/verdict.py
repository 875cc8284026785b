"""Is it working? One word about a run without labels, and the evidence for it."""

import math
from collections.abc import Sequence

MEASURE = 'judge/view_invariance'  # follows accuracy best: docs/judge.md
ERROR = 'judge/view_invariance_error'  # its standard error over images
HEALTHY, LEARNING, FLAT, LOSING, COLLAPSED = (
    'healthy', 'learning', 'flat', 'losing dimensions', 'collapsed',
)  # fmt: skip
HEALTH = (HEALTHY, LOSING, COLLAPSED)  # of the projections; `health` in the log is the index
SURE = 2.0  # standard errors by which a rise must exceed the noise


def verdict(
    kept: Sequence[float], errors: Sequence[float], health: str | None = None
) -> tuple[str, str] | None:
    """Learning, flat, losing dimensions or collapsed; None if nothing was measured.

    What the projections show decides first, since features of a network that collapses can look
    well for a while. Then the measure must have risen over the untrained network by more than its
    noise.

    Args:
        kept: Share of the neighbors that an image keeps under another view, at each judgment, the
            first one of the untrained network.
        errors: Standard error of each.
        health: What the projections show: LOSING, COLLAPSED, or anything else.

    >>> verdict([0.10, 0.24], [0.01, 0.01])[0], verdict([0.10, 0.11], [0.01, 0.01])[0]
    ('learning', 'flat')
    """
    if health == COLLAPSED:
        return COLLAPSED, 'all projections lie on a point or a few poles'
    if health == LOSING:
        return LOSING, 'the projections use less than a third of the dimensions that they once did'
    if len(kept) < 2 or len(kept) != len(errors) or not math.isfinite(kept[0] + kept[-1]):
        return None
    noise = SURE * math.hypot(errors[0], errors[-1])
    evidence = (
        f'an image keeps {kept[-1]:.1%} of its neighbors under another view, {kept[0]:.1%} before '
        f'training (noise: {noise:.1%})'
    )
    return (LEARNING if kept[-1] - kept[0] > noise else FLAT), evidence
