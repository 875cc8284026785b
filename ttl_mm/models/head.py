"""The head: predictor, and the truncated triplet loss of its predictions."""

import logging

import torch
from mmengine.dist import all_gather, get_rank
from mmengine.logging import print_log
from mmengine.model import BaseModule
from torch import Tensor, nn

from ttl_mm.errors import UserError
from ttl_mm.models.losses import Ranks, check_ranks, deputy_ranks, truncated_triplet_loss
from ttl_mm.registry import MODELS


@MODELS.register_module()
class TruncatedTripletHead(BaseModule):
    """Predict the target's projection; pull the positive, push the deputy of the negatives.

    Args:
        predictor: config of a neck that maps (N, D) to (N, D). None compares the projections
            themselves; pull and push must balance then (gamma=1), or the projections collapse.
        k: rank of the deputy; None is the paper's m/2, the median of whatever batch there is.
        smoothed: average over ranks 2..2k+1 instead.
        ranks: the deputy spelt out instead of ``k``: (lo, hi), 'semi-hard' or 'all'. (2, 10) is
            the head the authors released, (1, 1) the hardest negative.
        gamma: weight of the positive.
        margin: the paper's C, a floor. -100 never clips, as the loss is within [-3, 3] at γ = 2.
        loss_weight: 2 gives the gradient of the released code, which measures -2·cos. Under LARS
            it matters for the tensors that are not adapted.
        deputy_ceiling: do not push a deputy beyond this distance; 0 is orthogonal.
        gather_negatives: take negatives from all processes, which must hold equally many images.
    """

    def __init__(
        self,
        predictor: dict | nn.Module | None,
        k: int | None = None,
        smoothed: bool = False,
        ranks: Ranks | None = None,
        gamma: float = 2.0,
        margin: float = -100.0,
        loss_weight: float = 2.0,
        deputy_ceiling: float | None = None,
        gather_negatives: bool = False,
        init_cfg: dict | list | None = None,
    ):
        super().__init__(init_cfg)
        if ranks is None:
            deputy_ranks(1, k, smoothed)
        elif k is not None or smoothed:
            raise UserError(
                f'ranks={ranks} with k={k}, smoothed={smoothed}: give one or the other.'
            )
        else:
            ranks = check_ranks(ranks)
        if not gamma > 0:
            raise UserError(f'gamma={gamma}: the weight of the positive must be above 0.')
        if not margin < gamma + 1:
            raise UserError(
                f'margin={margin}: the loss never exceeds gamma + 1 = {gamma + 1}, so every '
                'triplet would be clipped. The margin is a floor, such as -100.'
            )
        if not loss_weight > 0:
            raise UserError(f'loss_weight={loss_weight}: it must be above 0.')
        if deputy_ceiling is not None and not -1 < deputy_ceiling <= 1:
            raise UserError(f'deputy_ceiling={deputy_ceiling}: a distance is -cos, within (-1, 1].')
        if predictor is None:
            predictor = nn.Identity()
        self.predictor = predictor if isinstance(predictor, nn.Module) else MODELS.build(predictor)
        self.k = k
        self.smoothed = smoothed
        self.ranks = ranks
        self.gamma = gamma
        self.margin = margin
        self.loss_weight = loss_weight
        self.deputy_ceiling = deputy_ceiling
        self.gather_negatives = gather_negatives
        self._announced = False
        self._warned = False

    def loss(self, projection: Tensor, target: Tensor) -> Tensor:
        """The loss of one direction: online projection (N, D), target projection (N, D)."""
        return self.compare(self.predict(projection), target)

    def predict(self, projection: Tensor) -> Tensor:
        """(N, D) -> (N, D) in float32, under autocast as well."""
        with torch.autocast(projection.device.type, enabled=False):
            return self.predictor((_at_least_float32(projection),))[0]

    def compare(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The weighted loss of predictions (N, D) against target projections (N, D)."""
        keys, offset = target.detach(), 0
        if self.gather_negatives:
            # only keys are gathered, and they have no gradient: each process backpropagates into
            # its own queries, and the mean over processes is the loss of the joined batch
            offset = get_rank() * len(keys)
            keys = torch.cat(all_gather(keys))
        with torch.autocast(prediction.device.type, enabled=False):
            loss = truncated_triplet_loss(
                prediction,
                keys,
                self._ranks(len(keys) - 1),
                gamma=self.gamma,
                margin=self.margin,
                deputy_ceiling=self.deputy_ceiling,
                offset=offset,
            )
        return self.loss_weight * loss

    def _ranks(self, num_negatives: int) -> Ranks:
        ranks = self.ranks or deputy_ranks(num_negatives, self.k, self.smoothed)
        if not self._announced:
            print_log(f'{num_negatives} negatives per anchor, deputy: {ranks}', 'current')
            self._announced = True
        if not self._warned and self.largest_rank() > num_negatives:
            print_log(
                f'Only {num_negatives} negatives for a deputy of rank {self.largest_rank()}: '
                'clamped to the farthest. Enlarge the batch, or lower k.',
                'current',
                logging.WARNING,
            )
            self._warned = True
        return ranks

    def largest_rank(self) -> int:
        """The rank that the settings ask for, whatever the batch; 1 if they adapt to it."""
        if self.ranks is not None:
            return 1 if isinstance(self.ranks, str) else self.ranks[1]
        if self.k is None:
            return 1
        return 2 * self.k + 1 if self.smoothed else self.k


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
