"""Move the target network after the optimizer step."""

import math

from mmengine.dist import broadcast_object_list
from mmengine.hooks import Hook

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.models import TTLAlgorithm
from ttl_mm.registry import HOOKS


def cosine_momentum(iteration: int, horizon: int, start: float) -> float:
    """m(i) = 1 - (1 - start)·(cos(π·i/I) + 1)/2: ``start`` at i = 0, and 1 from the horizon I on.

    >>> [round(cosine_momentum(i, 100, 0.99), 4) for i in (0, 50, 100, 120)]
    [0.99, 0.995, 1.0, 1.0]
    """
    progress = min(iteration / horizon, 1.0)
    return 1 - (1 - start) * (math.cos(math.pi * progress) + 1) / 2


@HOOKS.register_module()
class TargetUpdateHook(Hook):
    """θ_target <- m·θ_target + (1 - m)·θ_online, once per optimizer step and after it.

    The optim wrapper is asked whether an iteration stepped, so gradient accumulation needs no
    second setting. m rises from ``target_momentum`` of the model to 1 along
    :func:`cosine_momentum`. Its horizon is stated and not taken from the run: one that stops early,
    such as 20 epochs of a 200-epoch schedule, must not anneal the momentum early.

    Args:
        horizon_epochs: Epochs after which the momentum reaches 1.
        horizon_iters: The same in iterations, for loops that count those.
    """

    priority = 'HIGH'  # before anything that looks at the model after an iteration

    def __init__(self, horizon_epochs: int | None = None, horizon_iters: int | None = None):
        given = [h for h in (horizon_epochs, horizon_iters) if h is not None]
        if len(given) != 1 or given[0] <= 0:
            raise UserError(
                f'horizon_epochs={horizon_epochs}, horizon_iters={horizon_iters}: set one of them, '
                'above 0, to the length of the whole schedule.'
            )
        self.horizon_epochs, self.horizon_iters = horizon_epochs, horizon_iters

    def before_train(self, runner) -> None:
        """Settle horizon and seed; start the target from the online network unless resuming."""
        model = unwrap_model(runner.model)
        if not isinstance(model, TTLAlgorithm):
            raise UserError(
                f'TargetUpdateHook moves the target of a TTLAlgorithm, and the model is a '
                f'{type(model).__name__}: take the hook out of default_hooks or custom_hooks.'
            )
        if model.target_momentum is None:
            raise UserError(
                'the model has no target network (target_momentum=None), so TargetUpdateHook has '
                'nothing to move: take it out of default_hooks or custom_hooks.'
            )
        self.model, self.start = model, model.target_momentum
        epochs = self.horizon_epochs or 0
        self.horizon = epochs * len(runner.train_dataloader)
        if self.horizon_iters:
            stretch = getattr(
                runner.train_loop, 'stretch', 1.0
            )  # other loops know their ranks only
            self.horizon = max(1, round(stretch * self.horizon_iters))
        seed = [runner.seed]
        broadcast_object_list(seed)  # all processes draw the same sizes, whatever their own seed
        self.seed = seed[0]
        if runner.iter == 0:
            self.model.sync_target()

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        """Tell the model which iteration this is."""
        self.model.set_progress(self.seed, runner.iter)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Move the target if the optimizer stepped, and log the momentum."""
        momentum = cosine_momentum(runner.iter, self.horizon, self.start)
        runner.message_hub.update_scalar('train/momentum', momentum)
        if runner.optim_wrapper.should_update():
            self.model.update_target(momentum)
