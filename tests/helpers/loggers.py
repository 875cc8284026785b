"""Loggers of runs that are over, and the scope of names that they left."""

from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope


def forget_scope() -> None:
    """A run warns in its first line if another test of the process had another scope."""
    DefaultScope._instance_dict.clear()


def forget_loggers() -> None:
    """Close and drop them: mmengine gives a new run of the same name and second an old logger."""
    for logger in MMLogger._instance_dict.values():
        for handler in list(logger.handlers):
            handler.close()
            logger.removeHandler(handler)
    MMLogger._instance_dict.clear()
