"""From data and hardware to a schedule, and what it has in common with the paper's."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ttl_mm.errors import UserError
from ttl_mm.gauges.binomial_tail import overclustering_risk, smallest_safe_k
from ttl_mm.gauges.poles import fewest_poles
from ttl_mm.planning.recipe import PAPER, PAPER_IMAGES, Recipe

#: a run that takes fewer steps than this gets a smaller accumulation (the paper takes 61,600)
FEW_STEPS = 10_000
#: ranks beyond the released window 2..10 lost more than they gained (docs/clustering.md)
LARGEST_K = 10
#: at the start the target averages the online network over at most this share of a run
TARGET_SHARE = 0.01


class Plan(NamedTuple):
    """A schedule for so many images, with the deputy's rank.

    ``shares`` are those of the classes among the images, where known; else they count as equal.
    """

    recipe: Recipe
    images: int
    classes: int
    k: int
    risk: float
    shares: tuple[float, ...] | None = None

    @property
    def false_deputy(self) -> float:
        """Chance that the deputy of an anchor is a false negative, under perfect features."""
        return overclustering_risk(self.negatives, self.k, self.shares or 1 / self.classes)

    @property
    def negatives(self) -> int:
        return self.recipe.batch - 1

    @property
    def iterations_per_epoch(self) -> int:
        """Micro-batches of an epoch; the last, incomplete one is dropped."""
        return self.images // (self.recipe.devices * self.recipe.batch)

    @property
    def steps(self) -> int:
        """Steps of the optimizer in the whole run."""
        return self.iterations_per_epoch * self.recipe.epochs // self.recipe.accumulation


class Equivalence(NamedTuple):
    """One quantity in the paper and in a plan."""

    quantity: str
    paper: str
    plan: str
    holds: bool
    consequence: str


class RankChoice(NamedTuple):
    """What speaks for and against one rank."""

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
    rate follows the images per step in proportion. The target follows faster in a short run.

    Args:
        images: Number of training images.
        classes: Estimate of the number of classes among them.
        devices: GPUs, or processes on CPUs.
        largest_batch: Most images that fit into one device; None is no limit.
        recipe: What is adapted.
        epochs: Length of the run; the recipe's by default.
        k: Rank of the deputy; the smallest safe one up to 10 by default.
        risk: Bound on the chance that the deputy of an anchor is a false negative.
        shares: Of the classes among the images; equal by default.
    """
    for name, value in (('images', images), ('classes', classes), ('gpus', devices)):
        if value < 1:
            raise UserError(f'{name} = {value}: at least 1 is needed.')
    if largest_batch is not None and largest_batch < 2:
        raise UserError(
            f'{largest_batch} images fit into the memory of a device, and a triplet needs 2: use '
            'smaller images or a smaller network.'
        )
    batch = min(recipe.batch, largest_batch or recipe.batch, images // devices)
    if batch < 2:
        raise UserError(
            f'{images} images on {devices} devices are fewer than 2 for each: use fewer devices.'
        )
    epochs = epochs or recipe.epochs
    per_iteration = devices * batch
    wanted = recipe.images_per_step / per_iteration
    affordable = images // per_iteration * epochs / FEW_STEPS
    accumulation = max(1, min(round(wanted), int(affordable)))
    shrink = per_iteration * accumulation / recipe.images_per_step
    steps = max(1, images // per_iteration * epochs // accumulation)
    fast_target = max(0.9, 1 - 1 / (TARGET_SHARE * steps))
    adapted = recipe._replace(
        devices=devices,
        batch=batch,
        accumulation=accumulation,
        lr=float(f'{recipe.lr * shrink:.4g}'),
        epochs=epochs,
        warmup_epochs=max(1, round(recipe.warmup_epochs * epochs / recipe.epochs)),
        base_momentum=min(recipe.base_momentum, float(f'{fast_target:.3g}')),
    )
    if k is None:
        k = min(smallest_safe_k(batch - 1, shares or 1 / classes, risk), LARGEST_K, batch // 2)
    elif not 1 <= k <= batch - 1:
        raise UserError(f'k = {k}: a batch of {batch} has ranks 1..{batch - 1}.')
    return Plan(adapted, images, classes, k, risk, tuple(shares) if shares else None)


def rank_choices(plan: Plan) -> list[RankChoice]:
    """Both sides of some ranks around the chosen one, up to the paper's k = m/2."""
    m = plan.negatives
    ranks = {1, 2, 5, 10, plan.k, (m + 1) // 2}
    return [
        RankChoice(k, plan._replace(k=k).false_deputy, fewest_poles(m, k, plan.risk))
        for k in sorted(ranks)
        if k <= m
    ]


def equivalences(plan: Plan) -> list[Equivalence]:
    """The plan beside the paper, quantity by quantity."""
    ours, m = plan.recipe, plan.negatives
    paper = Plan(PAPER, PAPER_IMAGES, 1000, 52, plan.risk)

    def row(quantity: str, value, form: str, consequence: str) -> Equivalence:
        theirs, here = value(paper), value(plan)
        holds = math.isclose(theirs, here, rel_tol=0.01)
        return Equivalence(
            quantity, format(theirs, form), format(here, form), holds, '' if holds else consequence
        )

    return [
        row(
            'negatives per anchor',
            lambda p: p.negatives,
            ',',
            'the same k is another quantile; k was chosen anew',
        ),
        row(
            'images per BN statistic',
            lambda p: p.recipe.batch * p.recipe.devices,
            ',',
            'noisier batch statistics' if ours.batch * ours.devices < 832 else 'smoother ones',
        ),
        row(
            'images per optimizer step',
            lambda p: p.recipe.images_per_step,
            ',',
            'the learning rate was scaled in proportion',
        ),
        row(
            'learning rate',
            lambda p: p.recipe.lr,
            '.4g',
            'a rule of thumb under LARS: tensors that LARS skips feel it most',
        ),
        row(
            'optimizer steps',
            lambda p: p.steps,
            ',',
            'curves compare by images seen, not by steps',
        ),
        row('epochs', lambda p: p.recipe.epochs, ',', 'accuracy compares at equal epochs only'),
        row(
            'momentum of the target',
            lambda p: p.recipe.base_momentum,
            '.3g',
            'a target at 0.99 would lag behind in so short a run',
        ),
        row(
            'k as a share of the negatives',
            lambda p: p.k / p.negatives,
            '.3f',
            f'rank {plan.k} of {m}; the paper takes the median, which two poles can satisfy',
        ),
        row(
            'chance of a false deputy',
            lambda p: p.false_deputy,
            '.1e',
            'under perfect features',
        ),
    ]


def cautions(plan: Plan) -> list[str]:
    """What a user should know before days of computing."""
    said = []
    m, k = plan.negatives, plan.k
    risk = plan.false_deputy
    if risk > plan.risk:
        said.append(
            f'Rank {k} is a false negative with a chance of {risk:.2g}, above {plan.risk:g}: '
            f'{plan.classes} classes are few among {m} negatives. A larger rank would be safer and '
            'loses dimensions; docs/clustering.md shows both.'
        )
    poles = fewest_poles(m, k, plan.risk)
    if poles < plan.classes / 2:
        said.append(
            f'Rank {k} of {m} can be satisfied by {poles} poles, fewer than half of '
            f'{plan.classes} classes: watch gauge/effective_rank for under-clustering.'
        )
    if plan.steps < FEW_STEPS:
        said.append(
            f'{plan.steps:,} optimizer steps are few: the paper takes 61,600. More epochs help.'
        )
    if plan.iterations_per_epoch % plan.recipe.accumulation:
        said.append(
            f'{plan.iterations_per_epoch} iterations per epoch are no multiple of the accumulation '
            f'{plan.recipe.accumulation}: some steps span two epochs, which is harmless.'
        )
    return said
