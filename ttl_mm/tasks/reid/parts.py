"""Registers what the configs of re-identification name; they list this in ``custom_imports``."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.tasks.reid.datasets import ReIDTestSet, ReIDTrainSet
from ttl_mm.tasks.reid.flip_features import FlipFeatures
from ttl_mm.tasks.reid.retrieval_metric import RetrievalMetric

__all__ = ['FlipFeatures', 'ReIDTestSet', 'ReIDTrainSet', 'RetrievalMetric']
