"""What mmengine logs where there is no run, and so no log file for it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.logging import MMLogger


@contextmanager
def quiet_outside_runs() -> Iterator[None]:
    """Drop lines below a warning, unless mmengine's logger writes a file, as that of a run does.

    ``init_weights`` of a model has lines about every tensor, too many for a terminal.
    """
    logger = MMLogger.get_current_instance()
    level = logger.level
    if not any(isinstance(handler, logging.FileHandler) for handler in logger.handlers):
        logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
