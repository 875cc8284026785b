"""Gradient accumulation that fits the run, and target networks that follow it."""

from mmengine.model import BaseAveragedModel

from ttl_mm.compat.mmengine_private import accumulative_counts
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import counted


def check_accumulation(runner) -> None:
    """Warn if the run is shorter than one accumulated step."""
    counts = accumulative_counts(runner.optim_wrapper)
    iterations = runner.train_loop.max_iters
    if counts > max(iterations, 1):
        runner.logger.warning(
            f'accumulative_counts={counts} is more than this run has, '
            f'{counted(iterations, "iteration")}: the optimizer will step once, at the end. Lower '
            'it or train longer.'
        )


def update_targets_once_per_step(runner) -> None:
    """Set mmpretrain's target networks (BYOL, MoCo) to one update per step of the optimizer.

    They update in every forward pass, which under accumulation is several times per step.
    """
    counts = accumulative_counts(runner.optim_wrapper)
    for name, module in unwrap_model(runner.model).named_modules() if counts > 1 else ():
        if isinstance(module, BaseAveragedModel) and module.interval == 1:
            module.interval = counts
            runner.logger.info(f'{name} is updated once per optimizer step, every {counts} passes')
