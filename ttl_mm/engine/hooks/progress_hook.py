"""Numbers a person asks for first: how fast, and is it waiting for data?"""

from mmengine.hooks import Hook

from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class ProgressHook(Hook):
    """Log ``images_per_s`` of all ranks and ``data_wait``, the share of time spent waiting."""

    priority = 'NORMAL'  # listed after the timer, and before the logger

    def before_train(self, runner) -> None:
        self._images = RunSettings.of(runner).batch_size

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        scalars = runner.message_hub.log_scalars
        if 'train/time' not in scalars:
            return  # a config without the timer
        seconds = max(scalars['train/time'].current(), 1e-9)
        runner.message_hub.update_scalar('train/images_per_s', self._images / seconds)
        wait = scalars['train/data_time'].current()
        runner.message_hub.update_scalar('train/data_wait', wait / seconds)
