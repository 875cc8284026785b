"""Registers the dataset that re-identification configs name; they list it in ``custom_imports``."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.reid.datasets import ReIDTrainSet

__all__ = ['ReIDTrainSet']
