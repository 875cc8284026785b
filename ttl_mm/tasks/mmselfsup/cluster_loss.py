"""The loss of DeepCluster and ODC."""

import torch.nn.functional as F
from torch import Tensor, nn

from ttl_mm.registry import MODELS


@MODELS.register_module()
class ClusterLoss(nn.Module):
    """Cross entropy with weights that compare clusters, and do not scale the loss.

    The two models set ``class_weight`` to weights that add up to one. mmcls's CrossEntropyLoss
    divides the weighted sum by the number of images, so that 10,000 clusters make loss and gradient
    10,000 times smaller and nothing is learnt; torch's divides it by the sum of their weights.
    """

    class_weight: Tensor | None = None

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of logits (N, k) and clusters (N,)."""
        return F.cross_entropy(logits, labels, weight=self.class_weight)
