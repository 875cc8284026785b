"""Features of mean 0 and variance 1, so that one rate fits classifiers on any backbone."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ttl_mm.registry import MODELS

LAST = 'neck.1.norm.'  # of the names of its tensors in a classifier


@MODELS.register_module()
class Standardize(nn.Module):
    """BatchNorm without scale and shift, behind the pooling.

    The rate at which a linear classifier diverges depends on the length of the features, and that
    on how the backbone was trained: what fits one backbone is ten times too large for another.
    :func:`folded` takes it out of a trained classifier.

    Args:
        num_features: D.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(num_features, affine=False)

    def forward(self, features: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The last of the feature maps, pooled: (N, D) to (N, D)."""
        return (self.norm(features[-1]),)


def folded(state: Mapping[str, Tensor], weight: str, bias: str) -> dict[str, Tensor]:
    """The same classifier on plain features: W' = W / σ and b' = b - W'·μ.

    Args:
        state: Tensors of a classifier with :class:`Standardize`.
        weight: Name of that of the linear layer, (C, D).
        bias: Name of its bias, (C,).
    """
    found = dict(state)
    mean, var = found.pop(f'{LAST}running_mean'), found.pop(f'{LAST}running_var')
    found.pop(f'{LAST}num_batches_tracked')
    found[weight] = found[weight] / torch.sqrt(var + nn.BatchNorm1d(1).eps)
    found[bias] = found[bias] - found[weight] @ mean
    return found
