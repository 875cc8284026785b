"""Everything that can be known to go wrong before the first step."""

from mmengine.hooks import Hook

from ttl_mm.compat.mmengine_private import built_train_loop
from ttl_mm.engine.guards.accumulation import check_accumulation, update_targets_once_per_step
from ttl_mm.engine.guards.batch_size import check_batch_size
from ttl_mm.engine.guards.data_size import check_last_batch
from ttl_mm.engine.guards.memory_bank import check_memory_bank
from ttl_mm.engine.guards.neck_width import check_neck_width
from ttl_mm.engine.guards.negatives import check_negatives
from ttl_mm.engine.guards.pixels import check_pixels
from ttl_mm.engine.guards.pretrained import check_pretrained
from ttl_mm.engine.guards.target_update import check_target_update
from ttl_mm.engine.guards.view_sizes import fit_view_sizes
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class PreflightHook(Hook):
    """Run the checks that need the model. The loop itself checks that there are images."""

    priority = 'VERY_HIGH'

    def before_run(self, runner) -> None:
        if built_train_loop(runner) is None:
            return  # a test run, whose loop is None or still a config
        check_last_batch(runner)
        check_accumulation(runner)
        check_batch_size(runner)
        check_neck_width(runner)
        fit_view_sizes(runner)
        check_negatives(runner)
        check_memory_bank(runner)
        check_pretrained(runner)
        check_pixels(runner)
        check_target_update(runner)
        update_targets_once_per_step(runner)
