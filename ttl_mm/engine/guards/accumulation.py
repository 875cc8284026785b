"""Gradient accumulation that fits the run, and target networks that follow it."""

from mmengine.model import BaseAveragedModel

from ttl_mm.compat.mmengine_private import accumulative_counts
from ttl_mm.engine.state.model import unwrap_model


def check(runner) -> None:
    """Warn if the run is shorter than one accumulated step; mend mmpretrain's target networks."""
    counts = accumulative_counts(runner.optim_wrapper)
    if counts == 1:
        return
    iterations = runner.train_loop.max_iters
    if counts > iterations:
        runner.logger.warning(
            f'accumulative_counts={counts} is more than the {iterations} iterations of this run: '
            'the optimizer will step once, at the end. Lower it or train longer.'
        )
    for name, module in unwrap_model(runner.model).named_modules():
        # BYOL and MoCo of mmpretrain update in every forward pass, which would be `counts` times
        # for one step of the optimizer
        if isinstance(module, BaseAveragedModel) and module.interval == 1:
            module.interval = counts
            runner.logger.info(f'{name} is updated once per optimizer step, every {counts} passes')
