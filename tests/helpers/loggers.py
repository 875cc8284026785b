"""Loggers of runs that are over."""

from mmengine.logging import MMLogger


def forget_loggers() -> None:
    """Close and drop them: mmengine gives a new run of the same name and second an old logger."""
    for logger in MMLogger._instance_dict.values():
        for handler in list(logger.handlers):
            handler.close()
            logger.removeHandler(handler)
    MMLogger._instance_dict.clear()
