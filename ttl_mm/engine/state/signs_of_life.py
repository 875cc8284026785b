"""Signs of life from hooks that work for long between two steps."""

from typing import Any

_KEY = 'signs_of_life'  # in mmengine's message hub, which every hook and thread of a run can reach


def report_life(runner: Any) -> None:
    """Say that this rank is at work, so that :class:`ttl_mm.engine.StallHook` grants it more time.

    To be called again and again, once per batch for example, by whatever may take minutes.
    """
    runner.message_hub.update_info(_KEY, signs_of_life(runner) + 1)


def signs_of_life(runner: Any) -> int:
    """How often :func:`report_life` was called."""
    return runner.message_hub.get_info(_KEY, 0)
