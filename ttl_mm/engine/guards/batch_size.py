"""The batch that the learning rate was chosen for."""

from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import counted


def check_batch_size(runner) -> None:
    """Warn if an iteration has another number of images than the learning rate is meant for."""
    scaling = runner.cfg.get('auto_scale_lr') or {}
    base, run = scaling.get('base_batch_size'), RunSettings.of(runner)
    if not base or run.batch_size == base or scaling.get('enable'):
        return
    lr = runner.cfg.optim_wrapper.get('optimizer', {}).get('lr')
    scaled = f' (from {lr:g} to {lr * run.batch_size / base:g})' if lr else ''
    accumulated = (
        f', times {run.accumulative_counts} accumulated' if run.accumulative_counts > 1 else ''
    )
    processes = counted(run.world_size, 'process', 'processes')
    runner.logger.warning(
        f'An iteration has {processes} x {run.batch_size_per_rank} = '
        f'{run.batch_size} images{accumulated}, and the learning rate is meant for {base} '
        '(auto_scale_lr.base_batch_size). To scale it with the batch'
        f'{scaled}: --cfg-options auto_scale_lr.enable=True. To keep the batch: change '
        'train_dataloader.batch_size or optim_wrapper.accumulative_counts, and then '
        'base_batch_size too.'
    )
