"""An alarm when the projections of all images become alike."""

from statistics import fmean

from mmengine.hooks import Hook

from ttl_mm.engine.hooks.output_recorder import OutputRecorder
from ttl_mm.engine.state.control_group import gather
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.gauges.collapse import effective_rank, feature_std
from ttl_mm.gauges.verdict import COLLAPSED, HEALTH, HEALTHY, LOSING
from ttl_mm.registry import HOOKS

# Measured on 64 digits in 64 dimensions: spread 0.79 and rank 40 before training, 0.78 and 34 in
# training, below 0.5 and below 3 after a learning rate of 5 has collapsed the network.
MIN_SPREAD = 0.1
MIN_RANK = 2.1
MIN_RANK_SHARE = 0.06
LEAST_OF_HIGHEST = 1 / 3  # rank, as a share of the largest so far; 34 of 40 was healthy
REMEDY = 'Lower the learning rate, or choose a deputy of higher rank.'


@HOOKS.register_module()
class CollapseHook(Hook):
    """Measure the projections of one batch now and then; the loss alone does not show collapse.

    ``train/spread`` (the standard deviation times sqrt(D): 1 if evenly spread, 0 for a point) and
    ``train/rank`` (the effective rank) are the measures that GaugeHook logs per epoch, here the
    mean over the processes. Either can raise the alarm: images on one point have no spread, those
    on a few poles only a tiny rank.

    Args:
        interval: Iterations between two looks.
        stop_after: Alarms in a row after which to stop; None only warns.
    """

    priority = 'NORMAL'  # before the logger, which prints the gauges

    def __init__(self, interval: int = 50, stop_after: int | None = None) -> None:
        if stop_after is not None and stop_after < 1:
            raise UserError(f'stop_after={stop_after}: it must be at least 1, or None to go on.')
        self.interval, self.stop_after = interval, stop_after
        self.alarms = 0  # in a row
        self.highest = 0.0  # rank that was seen
        self._recorder = OutputRecorder()

    def state_dict(self) -> dict:
        return {'alarms': self.alarms, 'highest': self.highest}

    def load_state_dict(self, state: dict) -> None:
        self.alarms, self.highest = state['alarms'], state.get('highest', 0.0)

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        if self.every_n_train_iters(runner, self.interval):
            self._recorder.start(unwrap_model(runner.model), {'projections': 'neck'})

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if not self._recorder.recording:
            return
        projections = self._recorder.stop().get('projections')
        if not projections or projections[0].ndim != 2 or len(projections[0]) < 2:
            return
        features = projections[0].cpu()  # (N, D) of the first view
        of_ranks = gather(
            (feature_std(features) * features.shape[1] ** 0.5, effective_rank(features))
        )
        spread, rank = (fmean(values) for values in zip(*of_ranks))  # so that all decide alike
        runner.message_hub.update_scalar('train/spread', spread)
        runner.message_hub.update_scalar('train/rank', rank)
        self.highest = max(self.highest, rank)
        health = health_of(spread, rank, self.highest, *features.shape)
        runner.message_hub.update_info('health', health)
        runner.message_hub.update_scalar('train/health', HEALTH.index(health))
        if health != COLLAPSED:
            self.alarms = 0
            return
        self.alarms += 1
        where = 'one point' if spread < MIN_SPREAD else 'a few poles'
        finding = (
            f'collapse at iteration {runner.iter + 1}: the projections of {len(features)} images '
            f'lie on {where}. They have a spread of {spread:.3f} (1 is even, 0 a point) and use '
            f'{rank:.1f} dimensions of {features.shape[1]}'
        )
        runner.logger.error(f'{finding}. {REMEDY}')
        if self.stop_after is not None and self.alarms >= self.stop_after:
            raise TrainingStopped(f'{finding}; alarms in a row: {self.alarms}. {REMEDY}')


def health_of(spread: float, rank: float, highest: float, images: int, dimensions: int) -> str:
    """The state of the projections in plain words; ``highest`` is the largest rank so far."""
    if is_collapsed(spread, rank, images, dimensions):
        return COLLAPSED
    return LOSING if rank < LEAST_OF_HIGHEST * highest else HEALTHY


def is_collapsed(spread: float, rank: float, images: int, dimensions: int) -> bool:
    """Whether ``images`` projections lie on a point, or on a few."""
    least_rank = max(MIN_RANK, MIN_RANK_SHARE * min(images, dimensions))
    return not (spread >= MIN_SPREAD and rank >= min(least_rank, images - 0.5))
