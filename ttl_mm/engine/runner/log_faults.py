"""A log that cannot be written is no reason to end a run that can still train and save.

Full disks, removed folders and lost mounts hit the log first. Each place that fails is reported
once, and tried again at the next line.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from ttl_mm.compat.mmengine_private import visualizer_backends

_WRITES = ('add_config', 'add_graph', 'add_image', 'add_scalar', 'add_scalars', 'close')


def tolerate_log_faults(logger: logging.Logger, visualizer: Any) -> None:
    """Let every file of the log of a run fail without ending the run."""
    reported: set[str] = set()

    def tell(place: str, error: BaseException) -> None:
        if place not in reported:
            reported.add(place)
            with suppress(OSError, ValueError):
                print(
                    f'{place} cannot be written ({error}): the run goes on without it; make room, '
                    'or check the work dir.',
                    file=sys.stderr,
                )

    for backend in visualizer_backends(visualizer):
        for name in _WRITES:
            setattr(backend, name, _tolerant(getattr(backend, name), type(backend).__name__, tell))
    for handler in logger.handlers:
        name = getattr(handler, 'baseFilename', 'the log on the screen')
        setattr(handler, 'handleError', _report_to(tell, name))  # noqa: B010  logging's own way in


def _tolerant(write: Callable, place: str, tell: Callable) -> Callable:
    @wraps(write)
    def tolerant(*args: Any, **kwargs: Any) -> None:
        try:
            write(*args, **kwargs)
        except OSError as error:
            tell(place, error)

    return tolerant


def _report_to(tell: Callable, place: str) -> Callable[[logging.LogRecord], None]:
    def handle_error(record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            tell(place, error)

    return handle_error
