"""An alarm when the projections of all images become alike."""

import logging

from mmengine.hooks import Hook
from torch import Tensor

from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.gauges.collapse import effective_rank, feature_std
from ttl_mm.registry import HOOKS

# Of 64 digits in 64 dimensions: an untrained network has a spread of 0.79 and a rank of 40, one in
# training 0.78 and 34, one that a learning rate of 5 has collapsed 0.5 and less, and 3 and less.
MIN_SPREAD = 0.1
MIN_RANK = 2.1
MIN_RANK_SHARE = 0.06


@HOOKS.register_module()
class CollapseHook(Hook):
    """Look at the projections of one batch now and then; the loss alone does not show collapse.

    The alarm goes off if either gauge says so: images on one point have no spread, images on a few
    poles have a healthy spread and a tiny rank.

    Args:
        interval: Iterations between two looks.
        stop_after: Alarms in a row after which to stop; None only warns.
    """

    priority = 'NORMAL'  # before the logger, which prints the gauges

    def __init__(self, interval: int = 50, stop_after: int | None = None) -> None:
        if stop_after is not None and stop_after < 1:
            raise UserError(f'stop_after={stop_after}: it must be at least 1, or None to go on.')
        self.interval = interval
        self.stop_after = stop_after
        self.alarms = 0
        self._heard: Tensor | None = None

    def state_dict(self) -> dict:
        return {'alarms': self.alarms}

    def load_state_dict(self, state: dict) -> None:
        self.alarms = state['alarms']

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        neck = getattr(unwrap_model(runner.model), 'neck', None)
        self._tap = None
        if neck is not None and self.every_n_train_iters(runner, self.interval):
            self._tap = neck.register_forward_hook(self._hear)

    def _hear(self, module, inputs, output) -> None:
        first = output[0] if isinstance(output, (tuple, list)) else output
        self._heard = first.detach() if isinstance(first, Tensor) and first.ndim == 2 else None

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if self._tap is None:
            return
        self._tap.remove()
        features, self._heard = self._heard, None
        if features is None or len(features) < 2:
            return
        features = features.cpu()
        spread = feature_std(features) * features.shape[1] ** 0.5
        rank = effective_rank(features)
        runner.message_hub.update_scalar('train/spread', spread)
        runner.message_hub.update_scalar('train/rank', rank)
        if not is_collapsed(spread, rank, *features.shape):
            self.alarms = 0
            return
        self.alarms += 1
        finding = (
            f'collapse at iteration {runner.iter + 1}: the projections of {len(features)} images '
            f'have a spread of {spread:.3f} (1 is even, 0 a point) and use {rank:.1f} dimensions '
            f'of {features.shape[1]}'
        )
        runner.logger.log(logging.ERROR, f'{finding}. Lower the learning rate or raise k.')
        if self.stop_after is not None and self.alarms >= self.stop_after:
            raise TrainingStopped(f'{finding}, for the {self.alarms}. time in a row.')


def is_collapsed(spread: float, rank: float, images: int, dimensions: int) -> bool:
    """Whether ``images`` projections lie on a point, or on a few."""
    least_rank = max(MIN_RANK, MIN_RANK_SHARE * min(images, dimensions))
    return not (spread >= MIN_SPREAD and rank >= min(least_rank, images - 0.5))
