"""Images to batches: datasets, transforms, samplers."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.datasets.digits import Digits

__all__ = ['Digits']
