"""Which sizes of images a network takes, found by trying."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

FACTORS = (1, 2, 4, 8, 16, 32, 64)


class ViewSizes(NamedTuple):
    """Edges of square images, in pixels."""

    smallest: int
    multiple: int = 1  # every edge is a multiple of it
    only: int | None = None  # the one edge that a network with fixed positions takes

    def allows(self, edge: int) -> bool:
        """Whether images of this edge can be computed."""
        if self.only is not None:
            return edge == self.only
        return edge >= self.smallest and edge % self.multiple == 0

    def nearest(self, edge: int) -> int:
        """The allowed edge next to this one.

        >>> ViewSizes(smallest=32, multiple=16).nearest(100)
        96
        """
        if self.only is not None:
            return self.only
        return max(self.smallest, round(edge / self.multiple) * self.multiple)

    def largest_within(self, edge: int) -> int:
        """The largest allowed edge up to this one; the smallest there is if none is."""
        if self.only is not None:
            return self.only
        return max(self.smallest, edge // self.multiple * self.multiple)

    def __str__(self) -> str:
        if self.only is not None:
            return f'{self.only} pixels only'
        step = f' in steps of {self.multiple}' if self.multiple > 1 else ''
        return f'{self.smallest} pixels and more{step}'


def patch_size(network: nn.Module) -> int:
    """Edge of the patches that the first convolution cuts an image into; 1 if they overlap."""
    convolutions = (layer for layer in network.modules() if isinstance(layer, nn.Conv2d))
    first = next(convolutions, None)
    if first is None or first.kernel_size != first.stride:
        return 1
    return int(first.stride[0])


def find_sizes(takes: Callable[[int], bool], edge: int, patch: int, stride: int) -> ViewSizes:
    """The sizes a network takes.

    Args:
        takes: Whether it computes images of an edge.
        edge: One that it takes, a multiple of the patch.
        patch: Of :func:`patch_size`.
        stride: Pixels of an image for one of its last map, 1 if it gives no map.
    """
    multiple = next((f * patch for f in FACTORS if takes(edge + f * patch)), None)
    if multiple is None:
        return ViewSizes(edge, only=edge)
    smallest = max(multiple, -(-stride // multiple) * multiple)
    while smallest < edge and not takes(smallest):
        smallest = min(edge, 2 * smallest)
    return ViewSizes(smallest, multiple)
