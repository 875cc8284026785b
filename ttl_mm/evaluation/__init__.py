"""Judging frozen features: extraction, kNN, linear, low-shot, retrieval."""

from ttl_mm.evaluation.knn import knn_classify, knn_sweep
from ttl_mm.evaluation.linear import linear_classify
from ttl_mm.evaluation.retrieval import evaluate_retrieval
from ttl_mm.evaluation.retrieval_metric import RetrievalMetric
from ttl_mm.evaluation.voc_metric import VOCDetectionMetric

__all__ = [
    'RetrievalMetric',
    'VOCDetectionMetric',
    'evaluate_retrieval',
    'knn_classify',
    'knn_sweep',
    'linear_classify',
]
