"""Registers the parts that the configs of classifiers name; they list it in ``custom_imports``."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.classification import early_stop_hook, freeze_hook, validation_score

__all__ = ['early_stop_hook', 'freeze_hook', 'validation_score']
