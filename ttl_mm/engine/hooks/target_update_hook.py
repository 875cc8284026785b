"""Move the target network after the optimizer step."""

import math

from mmengine.dist import broadcast_object_list
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper

from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS


def cosine_momentum(iteration: int, horizon: int, base: float, end: float = 1.0) -> float:
    """m(i) = end - (end - base)·(cos(π·i/I) + 1)/2, from ``base`` at 0 to ``end`` from I on."""
    progress = min(iteration / horizon, 1.0)
    return end - (end - base) * (math.cos(math.pi * progress) + 1) / 2


@HOOKS.register_module()
class TargetUpdateHook(Hook):
    """θ_target <- m·θ_target + (1 - m)·θ_online, once per optimizer step and after it.

    The optim wrapper alone says whether an iteration stepped, so accumulation needs no second
    setting. m follows :func:`cosine_momentum` over an explicit horizon: a run that stops early,
    such as 20 epochs of a 200-epoch schedule, must not anneal the momentum early.

    Args:
        horizon_epochs: epochs after which the momentum reaches ``end_momentum``.
        horizon_iters: the same in iterations, for loops that count those.
        end_momentum: momentum at the horizon; the model holds the momentum at the start.
    """

    priority = 'HIGH'  # before anything that looks at the model after an iteration

    def __init__(
        self,
        horizon_epochs: int | None = None,
        horizon_iters: int | None = None,
        end_momentum: float = 1.0,
    ):
        given = [h for h in (horizon_epochs, horizon_iters) if h is not None]
        if len(given) != 1 or given[0] <= 0:
            raise UserError(
                f'horizon_epochs={horizon_epochs}, horizon_iters={horizon_iters}: set one of them, '
                'above 0, to the length of the whole schedule.'
            )
        if not 0 <= end_momentum <= 1:
            raise UserError(f'end_momentum={end_momentum}: it must lie in [0, 1].')
        self.horizon_epochs = horizon_epochs
        self.horizon_iters = horizon_iters
        self.end_momentum = end_momentum

    def before_train(self, runner) -> None:
        """Fix horizon and seed; start the target from the online network unless resuming."""
        self.horizon = self.horizon_iters or self.horizon_epochs * len(runner.train_dataloader)
        seed = [runner.seed]
        broadcast_object_list(seed)  # all processes draw the same sizes, whatever their own seed
        self.seed = seed[0]
        self.model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        if runner.iter == 0:
            self.model.sync_target()

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        """Tell the model which iteration this is."""
        self.model.set_progress(self.seed, runner.iter)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Move the target if the optimizer stepped, and log the momentum."""
        momentum = cosine_momentum(
            runner.iter, self.horizon, self.model.target_momentum, self.end_momentum
        )
        runner.message_hub.update_scalar('train/momentum', momentum)
        if runner.optim_wrapper.should_update():
            self.model.update_target(momentum)
