"""The head: predictor, and the truncated triplet loss of its predictions."""

import logging
from typing import Any

import torch
from mmengine.dist import all_gather, get_rank
from mmengine.logging import print_log
from mmengine.model import BaseModule
from torch import Tensor, nn

from ttl_mm.errors import UserError, refuse_options
from ttl_mm.models.losses import ALL, SEMI_HARD, deputy_ranks, is_rank, truncated_triplet_loss
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
        gather_negatives: take negatives from all processes, which must hold equally many images.
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
        init_cfg: dict | list | None = None,
        **old: Any,
    ):
        super().__init__(init_cfg)
        refuse_options('TruncatedTripletHead', old, _OLD_OPTIONS)
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
        self.gamma = gamma
        self.margin = margin
        self.loss_weight = loss_weight
        self.deputy_ceiling = deputy_ceiling
        self.gather_negatives = gather_negatives
        self._announced = self._warned = False

    def predict(self, projection: Tensor) -> Tensor:
        """Predictions (N, D) of projections (N, D), in float32 under autocast as well."""
        projection = projection.to(torch.promote_types(projection.dtype, torch.float32))
        with torch.autocast(projection.device.type, enabled=False):
            prediction = self.predictor((projection,))
        return prediction if isinstance(prediction, Tensor) else prediction[0]

    def compare(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The weighted loss (a scalar) of predictions (N, D) against target projections (N, D)."""
        keys, offset = target.detach(), 0
        if self.gather_negatives:
            # Only keys are gathered, and they have no gradient. Each process backpropagates into
            # its own queries; the mean over the processes is the loss of the joined batch.
            offset = get_rank() * len(keys)
            keys = torch.cat(all_gather(keys))
        self._report(len(keys) - 1)
        ranks, ceiling = self.window(len(keys) - 1) or SEMI_HARD, self.deputy_ceiling
        with torch.autocast(prediction.device.type, enabled=False):
            loss = truncated_triplet_loss(
                prediction, keys, ranks, self.gamma, self.margin, ceiling, offset=offset
            )
        return self.loss_weight * loss

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
