"""Signs that a run cannot learn, whatever its loss says; none of them needs labels."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

GRID = 4  # cells along an edge that an image is averaged into


def displacement(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """How far weights have moved, in units of their own length: the median over the tensors.

    0 for no tensors; tensors that were zero do not count.

    >>> displacement([torch.tensor([3.0, 4.0])], [torch.tensor([3.0, 6.5])])  # 2.5 of 5
    0.5
    """
    pairs = [(b.double(), a.double()) for b, a in zip(before, after) if b.any()]
    moved = [((a - b).norm() / b.norm()).item() for b, a in pairs]
    return float(torch.tensor(moved).median()) if moved else 0.0


def identical_share(view: Tensor, other: Tensor) -> float:
    """Share of the images whose two views (N, C, H, W) are equal pixel by pixel.

    >>> views = torch.zeros(2, 4, 3, 2, 2)  # two views of four images
    >>> views[1, 0] = 1
    >>> identical_share(*views)
    0.75
    """
    if view.shape != other.shape or not len(view):
        return 0.0
    return (view == other).flatten(1).all(dim=1).double().mean().item()


def coarse_shares(images: Tensor) -> Tensor:
    """Share of the variance of each image (N, C, H, W) that its averages over 4 × 4 cells keep.

    About 0.3 to 0.8 for photographs and drawings, and 16 / HW for pixels of pure noise. Images of
    one color are left out.

    >>> halves = torch.zeros(1, 3, 8, 8)
    >>> halves[..., :4] = 1  # every cell has one color, so that nothing is lost
    >>> coarse_shares(halves)
    tensor([1.])
    """
    gray = images.float().mean(dim=1, keepdim=True)
    total = gray.flatten(1).var(dim=1, correction=0)  # (N,)
    coarse = adaptive_avg_pool2d(gray, GRID).flatten(1).var(dim=1, correction=0)
    return (coarse / total)[total > 0]
