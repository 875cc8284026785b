"""A truncated-triplet model needs the hook that moves its target network."""

from ttl_mm.engine.hooks.target_update_hook import TargetUpdateHook
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.models.algorithm import ADD_THE_HOOK, TTLAlgorithm


def check_target_update(runner) -> None:
    """Refuse to train a model whose target network nothing would move."""
    model = unwrap_model(runner.model)
    needed = isinstance(model, TTLAlgorithm) and model.has_target
    if needed and not any(isinstance(hook, TargetUpdateHook) for hook in runner.hooks):
        raise UserError(f'no hook would move the target network. {ADD_THE_HOOK}')
