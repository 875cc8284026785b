"""Semantic segmentation: FCN on masks of VOC or ADE style, from pre-trained weights."""
