"""Evaluation of frozen features: extraction, kNN, linear, low-shot, retrieval, online probe."""

from ttl_mm.evaluation.knn import knn_classify, knn_sweep
from ttl_mm.evaluation.linear import linear_classify
from ttl_mm.evaluation.retrieval import evaluate_retrieval

__all__ = ['evaluate_retrieval', 'knn_classify', 'knn_sweep', 'linear_classify']
