"""Keep a backbone of any kind as it is while a classifier is trained on it."""

from mmengine.hooks import Hook

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class FreezeBackboneHook(Hook):
    """No gradient for the backbone, and evaluation mode for its norms.

    It does for every network what ``frozen_stages`` does for a ResNet.
    """

    def before_run(self, runner) -> None:
        for weight in unwrap_model(runner.model).get_submodule('backbone').parameters():
            weight.requires_grad_(False)

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        """Again for every step: the loop sets the whole model to training mode."""
        unwrap_model(runner.model).get_submodule('backbone').eval()
