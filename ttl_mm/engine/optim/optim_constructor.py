"""Parameter groups by mmengine's rules, logged in one line per kind of group."""

import logging
from collections import defaultdict
from contextlib import contextmanager

from mmengine.logging import MMLogger, print_log
from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from ttl_mm.errors import counted
from ttl_mm.registry import OPTIM_WRAPPER_CONSTRUCTORS


@contextmanager
def _only_errors():
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def summary(groups: list[dict]) -> list[str]:
    """How many tensors and parameters share which settings."""
    kinds = defaultdict(list)
    for group in groups:
        settings = {k: v for k, v in group.items() if k not in ('params', 'decay_mult', 'lr_mult')}
        kinds[str(settings or 'as the optimizer says')].extend(group['params'])
    return [
        f'{counted(len(params), "tensor")}, {sum(p.numel() for p in params):,} parameters: '
        f'{settings}'
        for settings, params in kinds.items()
    ]


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class OptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """mmengine's constructor with a log that can be read.

    That one warns about every tensor of the target network, which no optimizer ever trains.
    """

    def add_params(self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs) -> None:
        """Collect the groups of ``module``; the outermost call logs what was found."""
        if prefix:
            super().add_params(params, module, prefix, **kwargs)
            return
        with _only_errors():
            super().add_params(params, module, prefix, **kwargs)
        for line in summary(params):
            print_log(f'Optimizer: {line}', 'current')
