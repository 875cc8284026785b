"""Judging frozen features: extraction, kNN, linear, low-shot, retrieval."""
