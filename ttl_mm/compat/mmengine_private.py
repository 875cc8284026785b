"""Every reach into a private name of mmengine, with the reason; a test guards each of them.

Attributes that mmengine's classes leave to their subclasses (``_epoch`` and ``_iter`` of a loop,
``_has_loaded`` of a runner) are used in our subclasses directly and are guarded by the same tests.
"""

import logging
from typing import Any

from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.model import BaseModule
from mmengine.registry import Registry

_PARTS = 'ttl_mm_parts'  # our own attribute
GRADIENTS_LOST = 'the gradient of some iterations is lost'


def accumulative_counts(optim_wrapper: Any) -> int:
    """Iterations per optimizer step; mmengine has no public name for it."""
    counts = getattr(optim_wrapper, '_accumulative_counts', 1)
    return counts // getattr(optim_wrapper, _PARTS, 1)


def set_accumulation(optim_wrapper: Any, counts: int) -> None:
    """Let the optimizer step after so many iterations, before the first of them."""
    optim_wrapper._accumulative_counts = counts


def count_parts(optim_wrapper: Any, parts: int) -> None:
    """Let every iteration consist of ``parts`` backward passes; after its counts are initialized.

    mmengine counts backward passes and calls them iterations.
    """
    for name in ('_accumulative_counts', '_inner_count', '_max_counts', '_remainder_counts'):
        setattr(optim_wrapper, name, parts * getattr(optim_wrapper, name))
    setattr(optim_wrapper, _PARTS, parts)


def built_train_loop(runner: Any) -> Any:
    """The training loop if it was built, else None; ``runner.train_loop`` would build it."""
    loop = runner._train_loop
    return None if isinstance(loop, dict) else loop


def leave_unformatted(config: Config) -> None:
    """Print a config with one key per line, as mmengine writes it before it calls yapf.

    A start prints it three times or more, and yapf takes most of that time. ``Config.fromfile`` has
    an option for this, which it ignores for configs of plain text.
    """
    object.__setattr__(config, '_format_python_code', False)


def visualizer_backends(visualizer: Any) -> list[Any]:
    """Where a visualizer writes; it offers them by name alone."""
    return list(getattr(visualizer, '_vis_backends', {}).values())


def mark_as_imported(registry: Registry) -> None:
    """Keep a registry from importing its ``locations``, where one of them was never shipped."""
    registry._imported = True


def initialize_again(module: BaseModule) -> None:
    """Draw the weights of a module once more; ``init_weights`` alone works only the first time."""
    module._is_init = False
    module.init_weights()


def silence_lost_gradients(optim_wrapper: Any) -> None:
    """Keep the next ``initialize_count_status`` from warning of gradients that were restored.

    mmengine warns whenever a run goes on between two optimizer steps, and offers no other way.
    """
    initialize = optim_wrapper.initialize_count_status

    def is_other(record: logging.LogRecord) -> bool:
        return GRADIENTS_LOST not in record.getMessage()

    def initialize_quietly(*args: Any) -> None:
        del optim_wrapper.initialize_count_status  # the method of the class is back
        logger = MMLogger.get_current_instance()
        logger.addFilter(is_other)
        try:
            initialize(*args)
        finally:
            logger.removeFilter(is_other)

    optim_wrapper.initialize_count_status = initialize_quietly
