"""From data and hardware to a schedule, and what it has in common with the paper's."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ttl_mm.errors import UserError, counted
from ttl_mm.gauges.binomial_tail import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.poles import fewest_poles
from ttl_mm.planning.recipe import PAPER, PAPER_IMAGES, Recipe

#: accumulation is lowered where a run would otherwise take fewer optimizer steps than this
FEW_STEPS = 10_000
#: ranks beyond the released window 2..10 lost more than they gained (docs/clustering.md)
LARGEST_K = 10
#: at the start the target averages the online network over at most this share of a run
TARGET_SHARE = 0.01
LOWEST_MOMENTUM = 0.9


class Plan(NamedTuple):
    """A schedule for a number of images, with the rank of the deputy.

    ``shares`` are the fractions of the images that belong to each class; equal where None.
    """

    recipe: Recipe
    images: int
    classes: int
    k: int
    risk: float
    shares: tuple[float, ...] | None = None

    @property
    def false_deputy(self) -> float:
        """Chance that the deputy of an anchor is a false negative, if the features are perfect."""
        return overclustering_risk(self.negatives, self.k, self.shares or 1 / self.classes)

    @property
    def negatives(self) -> int:
        """Negatives of an anchor: the batch minus one."""
        return self.recipe.batch - 1

    @property
    def iterations_per_epoch(self) -> int:
        """Micro-batches of an epoch; the last, incomplete one is dropped."""
        return self.images // self.recipe.images_per_iteration

    @property
    def steps(self) -> int:
        """Steps of the optimizer in the whole run."""
        return self.iterations_per_epoch * self.recipe.epochs // self.recipe.accumulation


#: the released schedule; its k is half of the batch, the paper's median
PAPER_PLAN = Plan(PAPER, PAPER_IMAGES, classes=1000, k=PAPER.batch // 2, risk=1e-3)


class Equivalence(NamedTuple):
    """One quantity in the paper and in a plan."""

    quantity: str
    paper: str
    plan: str
    holds: bool
    consequence: str


class RankChoice(NamedTuple):
    """Both sides of one rank: the chance of a false deputy, and the poles that satisfy the loss."""

    k: int
    risk: float
    poles: int


def make_plan(
    images: int,
    classes: int,
    devices: int = 1,
    largest_batch: int | None = None,
    recipe: Recipe = PAPER,
    epochs: int | None = None,
    k: int | None = None,
    risk: float = 1e-3,
    shares: Sequence[float] | None = None,
) -> Plan:
    """Adapt ``recipe`` to the data and the hardware.

    The batch of a device stays the recipe's where it fits, since it sets the number of negatives.
    Accumulation makes up for missing devices, unless the run would have too few steps; the learning
    rate is proportional to the images per step. The target follows faster in a short run.

    Args:
        images: Number of training images.
        classes: Estimate of the number of classes among them.
        devices: GPUs, or processes on CPUs.
        largest_batch: Most images that fit into one device; None is no limit.
        recipe: What is adapted.
        epochs: Length of the run; the recipe's by default.
        k: Rank of the deputy; the smallest safe one up to 10 by default.
        risk: Bound on the chance that the deputy of an anchor is a false negative.
        shares: Fractions of the images that belong to each class; equal by default.

    Example:
        >>> make_plan(images=100_000, classes=100, devices=2).k
        6
    """
    for name, value in (('images', images), ('classes', classes), ('gpus', devices)):
        if value < 1:
            raise UserError(f'{name} = {value}: at least 1 is needed.')
    batch = _batch_of_a_device(recipe, images, devices, largest_batch)
    adapted = _adapt(recipe, images, devices, batch, epochs or recipe.epochs)
    if k is None:
        safe = smallest_safe_k(batch - 1, shares or 1 / classes, risk)
        k = min(safe, LARGEST_K, batch // 2)
    elif not 1 <= k <= batch - 1:
        raise UserError(f'k = {k}: a batch of {batch} has ranks 1..{batch - 1}.')
    return Plan(adapted, images, classes, k, risk, tuple(shares) if shares else None)


def _batch_of_a_device(recipe: Recipe, images: int, devices: int, largest: int | None) -> int:
    """The recipe's batch, or less where memory or data do not suffice."""
    if largest is not None and largest < 2:
        raise UserError(
            f'the memory of a device holds {counted(largest, "image")}, and a triplet needs 2: use '
            'smaller images or a smaller network.'
        )
    batch = min(recipe.batch, largest or recipe.batch, images // devices)
    if batch < 2:
        raise UserError(
            f'{counted(images, "image")} on {counted(devices, "device")}: each device needs 2 at '
            'least. Use fewer devices or more images.'
        )
    return batch


def _adapt(recipe: Recipe, images: int, devices: int, batch: int, epochs: int) -> Recipe:
    """The recipe with accumulation, learning rate and momentum for this batch."""
    adapted = recipe._replace(devices=devices, batch=batch, epochs=epochs)
    iterations = images // adapted.images_per_iteration * epochs
    wanted = recipe.images_per_step / adapted.images_per_iteration
    accumulation = max(1, min(round(wanted), iterations // FEW_STEPS))
    steps = max(1, iterations // accumulation)
    fast_target = max(LOWEST_MOMENTUM, 1 - 1 / (TARGET_SHARE * steps))
    return adapted._replace(
        accumulation=accumulation,
        lr=_rounded(recipe.lr * accumulation / wanted, 4),
        target_momentum=min(recipe.target_momentum, _rounded(fast_target, 3)),
    )


def _rounded(value: float, digits: int) -> float:
    """``value`` to so many significant digits, as a config shows it."""
    return float(f'{value:.{digits}g}')


def rank_choices(plan: Plan) -> list[RankChoice]:
    """Both sides of some ranks around the chosen one, up to the paper's k = m/2."""
    m = plan.negatives
    ranks = {1, 2, 5, 10, plan.k, (m + 1) // 2}
    return [
        RankChoice(k, plan._replace(k=k).false_deputy, fewest_poles(m, k, plan.risk))
        for k in sorted(ranks)
        if k <= m
    ]


#: quantity, how it is computed and printed, and what follows where a plan differs from the paper
_QUANTITIES: tuple[tuple[str, Callable[[Plan], float], str, str], ...] = (
    ('negatives per anchor', lambda p: p.negatives, ',', 'k was chosen for this number'),
    ('images per BN statistic', lambda p: p.recipe.images_per_iteration, ',',
     '{noise} batch statistics'),
    ('images per optimizer step', lambda p: p.recipe.images_per_step, ',',
     'the learning rate was scaled in proportion'),
    ('learning rate', lambda p: p.recipe.lr, '.4g',
     'a rule of thumb under LARS; tensors that LARS skips feel it most'),
    ('optimizer steps', lambda p: p.steps, ',', 'compare curves by images seen, not by steps'),
    ('epochs', lambda p: p.recipe.epochs, ',', 'compare accuracies at equal epochs only'),
    ('momentum of the target', lambda p: p.recipe.target_momentum, '.3g',
     'at {paper.recipe.target_momentum:g} the target would lag behind in so short a run'),
    ('k as a share of the negatives', lambda p: p.k / p.negatives, '.3f',
     'rank {plan.k} of {plan.negatives}; the paper takes the median, which allows two poles'),
    ('chance of a false deputy', lambda p: p.false_deputy, '.1e', 'if the features are perfect'),
)  # fmt: skip


def equivalences(plan: Plan) -> list[Equivalence]:
    """The plan beside the paper, quantity by quantity."""
    fewer = plan.recipe.images_per_iteration < PAPER.images_per_iteration
    facts = {'plan': plan, 'paper': PAPER_PLAN, 'noise': 'noisier' if fewer else 'smoother'}
    rows = []
    for name, value, form, consequence in _QUANTITIES:
        theirs, ours = value(PAPER_PLAN), value(plan)
        holds = math.isclose(theirs, ours, rel_tol=0.01)
        note = '' if holds else consequence.format(**facts)
        rows.append(Equivalence(name, format(theirs, form), format(ours, form), holds, note))
    return rows


def cautions(plan: Plan) -> list[str]:
    """What a user should know before days of computing."""
    cautions = []
    m, k, risk = plan.negatives, plan.k, plan.false_deputy
    if risk > plan.risk:
        cautions.append(
            f'Rank {k} is a false negative with a chance of {risk:.2g}, above {plan.risk:g}: '
            f'{plan.classes} classes are few among {m} negatives. A larger rank is safer but costs '
            'dimensions; docs/clustering.md shows both.'
        )
    poles = fewest_poles(m, k, plan.risk)
    if poles < plan.classes / 2:
        cautions.append(
            f'Rank {k} of {m} can be satisfied by {poles} poles, fewer than half of '
            f'{plan.classes} classes: watch gauge/effective_rank for under-clustering.'
        )
    if plan.steps < FEW_STEPS:
        cautions.append(
            f'{plan.steps:,} optimizer steps are few: the paper takes {PAPER_PLAN.steps:,}. More '
            'epochs help.'
        )
    if plan.iterations_per_epoch % plan.recipe.accumulation:
        cautions.append(
            f'an epoch has {counted(plan.iterations_per_epoch, "iteration")}, no multiple of the '
            f'accumulation, {plan.recipe.accumulation}: some steps span two epochs, which is '
            'harmless.'
        )
    return cautions
