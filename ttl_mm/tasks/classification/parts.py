"""Registers the parts that the configs of classifiers name; they list it in ``custom_imports``."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.classification import (
    freeze_hook,
    linear_start_hook,
    standardize,
    validation_score,
    validation_stop_hook,
)

__all__ = [
    'freeze_hook',
    'linear_start_hook',
    'standardize',
    'validation_score',
    'validation_stop_hook',
]
