"""Name what makes a run pointless while it can still be stopped."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.model import BaseAveragedModel
from torch import Tensor, nn

from ttl_mm.engine.optim.muon import Muon
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.gauges.symptoms import coarse_shares, displacement, identical_share
from ttl_mm.registry import HOOKS

# Measured in 25 steps: weights of healthy runs (digits, BYOL on CIFAR-10) move by 0.006 and 0.08 of
# their length, at 100 times the rate by 1.4. Nine of ten photographs and digits have coarse shares
# above 0.21 in views of 32 to 96 pixels, noise has 0.01 to 0.08; a blur raises it, but not in all
# views.
MOST_MOVED = 0.5
# The same where the optimizer keeps the length of matrices (Muon): they only turn, in healthy runs
# by 0.6 to 0.8; two directions that have nothing in common are 1.41 apart.
MOST_TURNED = 1.2
LEAST_MOVED = 1e-3  # below, as in a warm-up, the motion of a target is lost in rounding
LEAST_TARGET = 1e-4  # motion of a target network, as a share of that of the online network
MOST_IDENTICAL = 0.5  # of the images
LEAST_COARSE, PART_NOISE = 0.1, 0.25  # share of the variance, in this part of the images
SMALLEST_VIEW = 32  # pixels; smaller ones do not tell noise from a picture
SAMPLE = 2048  # weights of a tensor that are compared
IMAGES = 16  # of a batch that are looked at


@HOOKS.register_module()
class SymptomsHook(Hook):
    """Warn of a rate that is far too large, a still target network, equal views and noise images.

    It looks at weights and at a batch that training used anyway, every ``interval`` iterations. It
    needs no labels, draws no random number and changes nothing. Each finding is reported once.
    Collapse to a point or to a few poles is what :class:`~ttl_mm.engine.CollapseHook` names.

    Args:
        interval: Iterations between two looks.
    """

    priority = 'NORMAL'

    def __init__(self, interval: int = 25) -> None:
        if interval < 1:
            raise UserError(f'interval={interval}: look every iteration (1) or less often.')
        self.interval = interval
        self.reported: set[str] = set()
        self._before: Weights | None = None  # at the last look
        self._most_moved = MOST_MOVED

    def before_train(self, runner) -> None:
        if is_main_process():
            self._before = Weights.of(unwrap_model(runner.model))
        optimizer = getattr(runner.optim_wrapper, 'optimizer', None)  # none where there are several
        self._most_moved = MOST_TURNED if isinstance(optimizer, Muon) else MOST_MOVED

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done = runner.iter + 1
        if not is_main_process() or done % self.interval:
            return
        now, before = Weights.of(unwrap_model(runner.model)), self._before
        self._before = now
        found = dict(symptoms_of_batch(data_batch))
        if before is not None:  # the target may stand still at the end of its schedule
            early = done <= runner.max_iters / 2 or done == self.interval
            found |= symptoms_of_weights(before, now, self.interval, early, self._most_moved)
        for name in sorted(found.keys() - self.reported):
            self.reported.add(name)
            runner.logger.error(f'{name}, seen at iteration {done}: {found[name]}')


class Weights(NamedTuple):
    """A sample of the weights of a model: its backbone, and its target network.

    Projectors and predictors begin so close to zero that a sound first step may be as long as they
    are; they count only where there is no backbone.
    """

    online: list[Tensor]
    target: list[Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> 'Weights':
        """The first values of each matrix of a model, copied to the host."""
        online = getattr(model, 'backbone', model).parameters()
        return cls(
            _sample(p for p in online if p.requires_grad), _sample(_target_parameters(model))
        )


def _sample(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    return [p.detach().flatten()[:SAMPLE].cpu().clone() for p in parameters if p.ndim > 1]


def _target_parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """Those of ours, and of averaged networks such as in BYOL and MoCo of mmpretrain."""
    for name, module in model.named_modules():
        if isinstance(module, BaseAveragedModel) or name in ('target_backbone', 'target_neck'):
            yield from module.parameters()


def symptoms_of_weights(
    before: Weights,
    now: Weights,
    steps: int,
    early: bool = True,
    most_moved: float = MOST_MOVED,
) -> Iterator[tuple[str, str]]:
    """What is wrong with the motion of the weights in so many steps: names and evidence."""
    moved = displacement(before.online, now.online)
    if not moved <= most_moved:  # or NaN
        yield (
            'learning rate too large',
            f'the weights have moved by {moved:.1f} times their own length in {steps} steps, '
            f'and {most_moved} is far too much. Lower the learning rate.',
        )
    if early and moved > LEAST_MOVED and now.target:
        followed = displacement(before.target, now.target)
        if followed < LEAST_TARGET * moved:
            yield (
                'target network does not move',
                f'its weights have moved by {followed:.1g} of their length in {steps} steps, the '
                f'online network by {moved:.1g}. Lower its momentum; ttl_mm.TargetUpdateHook moves '
                'the target of TTLAlgorithm.',
            )


def symptoms_of_batch(data_batch: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with the views of a batch: names and evidence."""
    views = views_of(data_batch)
    if len(views) > 1 and (share := identical_share(*views[:2])) > MOST_IDENTICAL:
        yield (
            'identical views',
            f'the two views of {share:.0%} of the images of a batch are equal, so there is nothing '
            'to learn from them. Check the pipeline: crops, flips and colors must be random.',
        )
    if views and min(views[0].shape[-2:]) >= SMALLEST_VIEW:
        shares = coarse_shares(views[0])
        low = shares.quantile(PART_NOISE).item() if len(shares) else 1.0
        if low < LEAST_COARSE:
            yield (
                'images look like noise',
                f'in a quarter of the views, averages over 4 × 4 cells keep at most {low:.1%} of '
                'the variance; in photographs they keep 20 to 80 %. Look at them with `ttl views`: '
                'are they decoded as they should be?',
            )


def views_of(data_batch: Any) -> list[Tensor]:
    """Two views (N, C, H, W) of some images; none where the inputs are single images."""
    inputs = data_batch.get('inputs') if isinstance(data_batch, dict) else None
    if not isinstance(inputs, (list, tuple)):
        return []
    views = [torch.stack(list(v)) if isinstance(v, (list, tuple)) else v for v in inputs[:2]]
    return [view[:IMAGES] for view in views if isinstance(view, Tensor) and view.ndim == 4]
