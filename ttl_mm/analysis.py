"""The former place of two functions that live in :mod:`ttl_mm.gauges` now."""

from ttl_mm.gauges import overclustering_risk, smallest_safe_k

__all__ = ['overclustering_risk', 'smallest_safe_k']
