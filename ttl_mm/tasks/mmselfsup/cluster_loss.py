"""The loss of DeepCluster and ODC."""

import torch.nn.functional as F
from torch import Tensor, nn

from ttl_mm.registry import MODELS


@MODELS.register_module()
class ClusterLoss(nn.Module):
    """Cross entropy with weights per cluster that do not change the scale of the loss.

    Both models set ``class_weight`` to weights with sum 1. mmcls's CrossEntropyLoss divides the
    weighted sum by the number of images: with 10,000 clusters, loss and gradient are 10,000 times
    too small and nothing is learned. torch divides it by the sum of the images' weights.
    """

    class_weight: Tensor | None = None

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean loss of logits (N, num_clusters) for clusters (N,)."""
        return F.cross_entropy(logits, labels, weight=self.class_weight)
