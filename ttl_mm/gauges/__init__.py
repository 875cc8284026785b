"""Pure measures of features: clustering, collapse, the risk of false negatives, poles."""

from ttl_mm.gauges.analysis import Analysis, analyze_features, explore_ranks
from ttl_mm.gauges.binomial_tail import (
    log_overclustering_risk,
    overclustering_risk,
    smallest_safe_k,
)
from ttl_mm.gauges.clustering import (
    RankExplorer,
    class_divergence,
    false_negative_frequency,
    false_negatives_by_rank,
)
from ttl_mm.gauges.collapse import effective_rank, feature_std
from ttl_mm.gauges.label_free import (
    alignment,
    judge_views,
    lidar,
    nearest_neighbors,
    neighbor_overlap,
    shared_neighbors,
    spectrum_decay,
    uniformity,
)
from ttl_mm.gauges.poles import fewest_poles, pole_loss

__all__ = [
    'Analysis',
    'RankExplorer',
    'alignment',
    'analyze_features',
    'class_divergence',
    'effective_rank',
    'explore_ranks',
    'false_negative_frequency',
    'false_negatives_by_rank',
    'feature_std',
    'fewest_poles',
    'judge_views',
    'lidar',
    'log_overclustering_risk',
    'nearest_neighbors',
    'neighbor_overlap',
    'overclustering_risk',
    'pole_loss',
    'shared_neighbors',
    'smallest_safe_k',
    'spectrum_decay',
    'uniformity',
]
