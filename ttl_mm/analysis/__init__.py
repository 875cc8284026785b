"""Over- and under-clustering, planning a run, reports."""

from ttl_mm.analysis.bernoulli import (
    log_overclustering_risk,
    overclustering_risk,
    smallest_safe_k,
)
from ttl_mm.analysis.clustering import (
    RankExplorer,
    class_divergence,
    false_negative_frequency,
    false_negatives_by_rank,
)
from ttl_mm.analysis.collapse import effective_rank, feature_std
from ttl_mm.analysis.explore import Analysis, analyze_features, explore_ranks
from ttl_mm.analysis.poles import fewest_poles, pole_loss

__all__ = [
    'Analysis',
    'RankExplorer',
    'analyze_features',
    'class_divergence',
    'effective_rank',
    'explore_ranks',
    'false_negative_frequency',
    'false_negatives_by_rank',
    'feature_std',
    'fewest_poles',
    'log_overclustering_risk',
    'overclustering_risk',
    'pole_loss',
    'smallest_safe_k',
]
