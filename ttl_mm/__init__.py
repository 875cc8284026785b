"""Truncated-triplet self-supervised pre-training for OpenMMLab."""

__version__ = '0.1.0'
