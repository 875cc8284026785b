"""The head: predictor, and the truncated triplet loss of its predictions."""

import logging
from typing import Any

import torch
from mmengine.dist import all_gather, all_reduce, get_rank
from mmengine.logging import print_log
from mmengine.model import BaseModule
from torch import Tensor, nn

from ttl_mm.compat.quiet_logging import quiet_outside_runs
from ttl_mm.errors import UserError, refuse_options
from ttl_mm.models import losses
from ttl_mm.models.losses import (
    ALL,
    SEMI_HARD,
    deputy_ranks,
    is_rank,
    truncated_triplet_loss,
)
from ttl_mm.registry import MODELS

Deputy = int | tuple[int, int] | str

MEDIAN = 'median'  # the paper's k = m/2
_OLD_OPTIONS = dict.fromkeys(
    ('k', 'smoothed', 'ranks'),
    'one option replaces k, smoothed and ranks. Write deputy=k, for smoothed=True '
    "deputy=(2, 2 * k + 1), for k=None deputy='median', or the value of ranks as deputy.",
)


@MODELS.register_module()
class TruncatedTripletHead(BaseModule):
    """Predict the target's projection; pull the positive, push the deputy of the negatives.

    Args:
        predictor: config of a neck that maps (N, D) to (N, D). None compares the projections
            themselves; pull and push must balance then (gamma=1), or the projections collapse.
        deputy: which of an anchor's m negatives it is pushed away from, rank 1 being the hardest.

            ===============  ==========================================================
            ``5``            the negative of rank 5
            ``(2, 10)``      the mean over ranks 2 to 10: the head the authors released
            ``'median'``     the paper's rank k = m/2, whatever the batch size
            ``'semi-hard'``  the nearest negative that is farther away than the positive
            ``'all'``        the mean over all negatives
            ===============  ==========================================================
        gamma: weight of the positive.
        margin: the paper's C, a floor. -100 never clips, as the loss is within [-3, 3] at γ = 2.
        loss_weight: 2 gives the gradient of the released code, which measures -2·cos. Under LARS
            it matters for the tensors that are not adapted.
        deputy_ceiling: do not push a deputy beyond this distance; 0 is orthogonal.
        deputy_temperature: T of a soft deputy: the ranks count with weights softmax(-d / T) instead
            of equally, so that the nearest ones count most, see
            :func:`ttl_mm.models.losses.soft_minimum`. A small T approaches the first of the ranks,
            a large T their mean.
        gather_negatives: take negatives from all processes, which must hold equally many images.
        both_views: take negatives from both large views, 2n - 2 of them, instead of from the view
            of the positive alone, n - 1.
        coding_rate: weight of the :func:`~ttl_mm.models.losses.coding_rate` of each large view's
            online projections, which is subtracted from the loss; each process takes its own batch.
    """

    def __init__(
        self,
        predictor: dict | nn.Module | None,
        deputy: Deputy = MEDIAN,
        gamma: float = 2.0,
        margin: float = -100.0,
        loss_weight: float = 2.0,
        deputy_ceiling: float | None = None,
        gather_negatives: bool = False,
        deputy_temperature: float | None = None,
        both_views: bool = False,
        coding_rate: float = 0.0,
        init_cfg: dict | list | None = None,
        **old: Any,
    ):
        super().__init__(init_cfg)
        refuse_options('TruncatedTripletHead', old, _OLD_OPTIONS)
        if not coding_rate >= 0:
            raise UserError(f'coding_rate={coding_rate}: it is a weight, at least 0.')
        if not (gamma > 0 and loss_weight > 0):
            raise UserError(f'gamma={gamma}, loss_weight={loss_weight}: both must be above 0.')
        if not margin < gamma + 1:
            raise UserError(
                f'margin={margin}: the loss never exceeds gamma + 1 = {gamma + 1}, so every '
                'triplet would be clipped. The margin is a floor, such as -100.'
            )
        if deputy_ceiling is not None and not -1 < deputy_ceiling <= 1:
            raise UserError(f'deputy_ceiling={deputy_ceiling}: a distance is -cos, within (-1, 1].')
        predictor = nn.Identity() if predictor is None else predictor
        self.predictor = predictor if isinstance(predictor, nn.Module) else MODELS.build(predictor)
        self.deputy = check_deputy(deputy)
        if deputy_temperature is not None:
            if not deputy_temperature > 0:
                raise UserError(f'deputy_temperature={deputy_temperature}: it must be above 0.')
            if not (isinstance(self.deputy, tuple) or self.deputy == ALL):
                raise UserError(
                    f'deputy_temperature={deputy_temperature} weighs several ranks, and '
                    f'deputy={self.deputy!r} is a single one: use two ranks such as (1, 20), or '
                    f'{ALL!r}.'
                )
        self.gamma = gamma
        self.margin = margin
        self.loss_weight = loss_weight
        self.deputy_ceiling = deputy_ceiling
        self.deputy_temperature = deputy_temperature
        self.gather_negatives = gather_negatives
        self.both_views = both_views
        self.coding_rate = coding_rate
        self._announced = self._warned = False

    def init_weights(self) -> None:
        """Initialize the predictor."""
        with quiet_outside_runs():
            super().init_weights()

    def predict(self, projection: Tensor) -> Tensor:
        """Predictions (N, D) of projections (N, D), in float32 under autocast as well."""
        projection = projection.to(torch.promote_types(projection.dtype, torch.float32))
        with torch.autocast(projection.device.type, enabled=False):
            prediction = self.predictor((projection,))
        return prediction if isinstance(prediction, Tensor) else prediction[0]

    def compare(self, prediction: Tensor, target: Tensor, other: Tensor | None = None) -> Tensor:
        """The weighted loss (a scalar) of predictions (N, D) against projections (N, D).

        Row i of ``target`` is the positive of prediction i. ``other`` holds the projections of the
        other large view, which ``both_views`` takes negatives from. Projections that carry a
        gradient get one: those of a target network carry none.
        """
        sets, offset = [target], 0
        if self.both_views:
            if other is None:
                raise UserError('both_views=True needs the projections of the other view as well.')
            sets.append(other)
        if self.gather_negatives:
            # Each process backpropagates into its own queries and, where they carry a gradient,
            # into the keys of all; the mean over processes is the loss of the joined batch.
            offset = get_rank() * len(target)
            sets = [gather(keys) for keys in sets]
        keys = torch.cat(sets)
        negatives = self.num_negatives(len(sets[0]))
        self._report(negatives)
        with torch.autocast(prediction.device.type, enabled=False):
            loss = truncated_triplet_loss(
                prediction,
                keys,
                self.window(negatives) or SEMI_HARD,
                self.gamma,
                self.margin,
                self.deputy_ceiling,
                offset=offset,
                temperature=self.deputy_temperature,
                views=len(sets),
                key_gradient=keys.requires_grad,
            )
        return self.loss_weight * loss

    def spread(self, projections: list[Tensor]) -> Tensor:
        """The weighted room that the projections (N, D) of each view take up, summed over views."""
        with torch.autocast(projections[0].device.type, enabled=False):
            rates = [losses.coding_rate(z) for z in projections]
        return self.coding_rate * torch.stack(rates).sum()

    def num_negatives(self, images: int) -> int:
        """How many negatives an anchor has among so many images."""
        return (images - 1) * (2 if self.both_views else 1)

    def window(self, num_negatives: int) -> tuple[int, int] | None:
        """The ranks (lo, hi) of the deputy among so many negatives; None if 'semi-hard'.

        They are the ranks asked for; the loss clamps those that a small batch does not have.
        """
        if isinstance(self.deputy, str):
            median, every = deputy_ranks(num_negatives), (1, num_negatives)
            return {MEDIAN: median, ALL: every, SEMI_HARD: None}[self.deputy]
        return self.deputy if isinstance(self.deputy, tuple) else (self.deputy, self.deputy)

    def _report(self, num_negatives: int) -> None:
        """Log the deputy once, and once that a batch is too small for it."""
        _, hi = self.window(num_negatives) or (1, 1)
        if not self._announced:
            rank = f' (rank {hi})' if self.deputy == MEDIAN else ''
            print_log(f'{num_negatives} negatives, deputy: {self.deputy}{rank}', 'current')
            self._announced = True
        if not self._warned and hi > num_negatives:
            print_log(
                f'Only {num_negatives} negatives for a deputy of rank {hi}: the farthest takes '
                'its place. Enlarge the batch or choose a deputy of lower rank.',
                'current',
                logging.WARNING,
            )
            self._warned = True


def gather(keys: Tensor) -> Tensor:
    """The keys of all processes, (processes·N, D); their gradients come back from all of them."""
    return GatherKeys.apply(keys) if keys.requires_grad else torch.cat(all_gather(keys))


class GatherKeys(torch.autograd.Function):
    """Keys (N, D) of every process; backward, the sum over processes of this process's rows."""

    @staticmethod
    def forward(ctx, keys):
        ctx.rows = len(keys)
        return torch.cat(all_gather(keys))

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        all_reduce(grad)
        start = get_rank() * ctx.rows
        return grad[start : start + ctx.rows]


def check_deputy(deputy: Any) -> Deputy:
    """Return the deputy, a pair of ranks as a tuple; raise if the value does not name one.

    >>> check_deputy([2, 10])
    (2, 10)
    """
    if deputy in (MEDIAN, SEMI_HARD, ALL) or is_rank(deputy):
        return deputy
    is_pair = isinstance(deputy, (list, tuple)) and len(deputy) == 2 and all(map(is_rank, deputy))
    if is_pair and deputy[0] <= deputy[1]:
        return tuple(deputy)
    raise UserError(
        f'deputy={deputy!r}: use a rank such as 5 (the hardest negative is 1), two ranks such as '
        f'(2, 10), {MEDIAN!r}, {SEMI_HARD!r} or {ALL!r}.'
    )
