"""Judging frozen features: extraction, kNN, linear, low-shot, retrieval."""

from ttl_mm.evaluation.knn import knn_classify, knn_sweep

__all__ = ['knn_classify', 'knn_sweep']
