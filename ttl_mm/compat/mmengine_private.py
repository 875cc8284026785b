"""Every reach into a private name of mmengine, with the reason; a test guards each of them.

Attributes that mmengine's classes leave to their subclasses (``_epoch`` and ``_iter`` of a loop,
``_has_loaded`` of a runner) are used in our subclasses directly and are guarded by the same tests.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mmengine.logging import MMLogger
from mmengine.model import BaseModule
from mmengine.registry import Registry

GRADIENTS_LOST = 'the gradient of some iterations is lost'


def accumulative_counts(optim_wrapper: Any) -> int:
    """Iterations per optimizer step; mmengine has no public name for it."""
    return getattr(optim_wrapper, '_accumulative_counts', 1)


def built_train_loop(runner: Any) -> Any:
    """The training loop if it was built, else None; ``runner.train_loop`` would build it."""
    loop = runner._train_loop
    return None if isinstance(loop, dict) else loop


def mark_as_imported(registry: Registry) -> None:
    """Keep a registry from importing its ``locations``, where one of them was never shipped."""
    registry._imported = True


def initialize_again(module: BaseModule) -> None:
    """Draw the weights of a module once more; ``init_weights`` alone works only the first time."""
    module._is_init = False
    module.init_weights()


@contextmanager
def without_warning_of_lost_gradients() -> Iterator[None]:
    """Keep an optimizer wrapper from warning of lost gradients where they were restored."""

    def is_other(record: logging.LogRecord) -> bool:
        return GRADIENTS_LOST not in record.getMessage()

    logger = MMLogger.get_current_instance()
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
