"""How long a run of ``ttl train`` is: chosen after a trial has measured what a step costs."""

import math
from dataclasses import replace

from ttl_mm.errors import UserError, counted
from ttl_mm.models.backbones import find_backbone
from ttl_mm.planning.image_sources import Sample
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_plan import TrainPlan
from ttl_mm.planning.trial import Trial
from ttl_mm.planning.view_growth import best_sizes, pixels_of

#: sizes that ``hours`` chooses from
SIZES = (224, 192, 160, 128, 96, 64)
DEFAULT_EPOCHS = 100
#: more epochs than the default where the run would have fewer steps than this, up to MOST_EPOCHS
ENOUGH_STEPS = 1000
MOST_EPOCHS = 400
#: fewer steps than this teach little (docs/train.md, "How long is long enough?")
FEW_STEPS = 200
FEWEST_STEPS = 10
LONG_RUN = 24 * 3600.0


def settle(plan: TrainPlan, trial: Trial, request: Request, elapsed: float = 0.0) -> TrainPlan:
    """Choose the length of the run, now that the cost of a step is known.

    Args:
        plan: A draft.
        trial: What its steps cost.
        request: What was asked for.
        elapsed: Seconds that planning has taken, which count as part of ``hours``.
    """
    plan = replace(plan, trial=trial)
    if request.hours is not None:
        plan = _sized(plan, 3600 * request.hours - elapsed)
        plan = _fit_into(plan, request.hours, elapsed, bool(request.labels))
    else:
        epochs, why = request.epochs, 'as asked for'
        if epochs is None:
            epochs, why = DEFAULT_EPOCHS, 'the default'
            if epochs * plan.steps_per_epoch < ENOUGH_STEPS:
                epochs = min(MOST_EPOCHS, math.ceil(ENOUGH_STEPS / plan.steps_per_epoch))
                why = f'more than the default, {DEFAULT_EPOCHS}, since there are few images'
        plan = replace(plan, steps=epochs * plan.steps_per_epoch, why={**plan.why, 'length': why})
    return replace(plan, cautions=(*plan.cautions, *_cautions(plan, request)))


def _sized(plan: TrainPlan, seconds: float) -> TrainPlan:
    """Give views the sizes that are best for this time, if the network takes several."""
    sizes = best_sizes(seconds / plan.trial.step)
    if sizes is None or find_backbone(plan.backbone).one_size:
        return plan
    return replace(plan, growth=sizes, pixel_share=pixels_of(sizes))


def _fit_into(plan: TrainPlan, hours: float, elapsed: float, probed: bool) -> TrainPlan:
    """As many steps as the time allows; the run corrects them by the time that they take."""
    why = {**plan.why, 'length': f'fitted into {hours:g} hours, and again while it trains'}
    seconds = 3600 * hours - elapsed
    limit = max(1.0, seconds - plan.closing(probed) - plan.trial.save)
    plan = replace(plan, limit=limit, why=why)
    low, high = 0, max(1, int(seconds / plan.mean_step))  # steps that fit, and that do not
    while high - low > 1:
        middle = (low + high) // 2
        fits = replace(plan, steps=middle).seconds(probed) <= seconds
        low, high = (middle, high) if fits else (low, middle)
    if low < FEWEST_STEPS:
        needed = elapsed + replace(plan, steps=FEWEST_STEPS).seconds(probed)
        raise UserError(
            f'--hours {hours:g} leaves time for {counted(low, "step")} of {plan.mean_step:.2g} s: '
            f'give at least --hours {math.ceil(needed / 36) / 100:g}, a smaller --size or a '
            'smaller --backbone.'
        )
    return replace(plan, steps=low)


def better_size(plan: TrainPlan, request: Request, sample: Sample) -> int:
    """The largest size with which a run of ``hours`` has enough steps.

    A step is taken to cost in proportion to the pixels; a second trial corrects that. If even the
    smallest size has too few steps, it is taken.
    """
    if request.hours is None or request.size is not None:
        return plan.size
    allowed = find_backbone(plan.backbone).sizes
    largest = max(plan.size, sample.short_side // 8 * 8)
    sizes = [s for s in SIZES if allowed.allows(s) and s <= largest] or [plan.size]
    for size in sizes:
        if plan.steps * (plan.size / size) ** 2 >= ENOUGH_STEPS:
            return size
    return min(sizes)


def _cautions(plan: TrainPlan, request: Request) -> list[str]:
    found = []
    if plan.steps < FEW_STEPS:
        found.append(
            f'A network learns little in {counted(plan.steps, "step")}, far more in some '
            'hundreds: give more --epochs or --hours, or a smaller --size.'
        )
    seconds = plan.seconds(bool(request.labels))
    if request.hours is None and seconds > LONG_RUN:
        found.append(
            f'This takes {duration(seconds)} here. --hours 24 fits it into a day; a smaller --size '
            'or --backbone is quicker too.'
        )
    return found


def duration(seconds: float) -> str:
    """'45 s', '12 min', '3.5 h' or '40 days'.

    >>> duration(5400)
    '1.5 h'
    """
    for unit, length, limit in (('s', 1, 90), ('min', 60, 90), ('h', 3600, 72)):
        if seconds < limit * length:
            return f'{seconds / length:.{1 if unit == "h" else 0}f} {unit}'
    return f'{seconds / 86400:.0f} days'
