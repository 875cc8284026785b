"""Everything that can be known to go wrong before the first step."""

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmpretrain.models import BaseSelfSupervisor

from ttl_mm.compat.mmengine_private import built_train_loop
from ttl_mm.engine.guards import (
    accumulation,
    data_size,
    memory_bank,
    negatives,
    pretrained,
    target_update,
)
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class PreflightHook(Hook):
    """Run the checks that need the model. That there are any data is checked with the loop."""

    priority = 'VERY_HIGH'

    def before_run(self, runner) -> None:
        if built_train_loop(runner) is None:
            return  # a test run, whose loop is None or still a config
        if isinstance(unwrap_model(runner.model), BaseSelfSupervisor):
            data_size.check_last_batch(runner.train_dataloader, get_world_size())
        accumulation.check(runner)
        negatives.check(runner)
        memory_bank.check(runner)
        pretrained.check(runner)
        target_update.check_target_update(runner)
