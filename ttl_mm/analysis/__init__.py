"""Over- and under-clustering, planning a run, reports."""

from ttl_mm.analysis.bernoulli import (
    log_overclustering_risk,
    overclustering_risk,
    smallest_safe_k,
)
from ttl_mm.analysis.collapse import effective_rank, feature_std

__all__ = [
    'effective_rank',
    'feature_std',
    'log_overclustering_risk',
    'overclustering_risk',
    'smallest_safe_k',
]
