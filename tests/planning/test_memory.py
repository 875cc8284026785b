import torch
from torch import nn

from ttl_mm.planning import MemoryUse, measure_memory
from ttl_mm.planning.memory import CONTEXT_BYTES, GIB, OVERHEAD


class Squares(nn.Module):
    """Keeps exactly its input of the square, (N, 10) numbers, for each view."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(10))
        self.frozen = nn.Parameter(torch.ones(30), requires_grad=False)

    def loss(self, views, data_samples):
        return {'loss': sum((view + self.weight).square().sum() for view in views)}


def test_memory_is_what_autograd_keeps_and_what_the_optimizer_needs():
    use = measure_memory(Squares(), [torch.randn(5, 10), torch.randn(5, 10)], half=False)
    kept, inputs = 2 * 10 * 4, 2 * 10 * 4
    assert use.per_image == kept + inputs
    assert use.fixed == 40 * 4 + 2 * 10 * 4  # weights; gradient and momentum of the trained ones


class TwoConvolutions(nn.Conv2d):
    def loss(self, views, data_samples):
        return {'loss': self(self(views[0])).sum()}


def test_convolutions_keep_their_inputs():
    model, images = TwoConvolutions(8, 8, 3, padding=1), [torch.randn(4, 8, 16, 16)]
    full, half = (measure_memory(model, images, half).per_image for half in (False, True))
    assert full == 8 * 16 * 16 * (4 + 4)  # the image, which is the first input, and the second
    assert half == 8 * 16 * 16 * (4 + 2 + 2)  # the image, and both inputs in two bytes


def test_the_largest_batch_fits_and_the_next_does_not():
    use = MemoryUse(fixed=GIB, per_image=0.1 * GIB)
    batch = use.largest_batch(12, multiple=1)
    for images, fits in ((batch, True), (batch + 1, False)):
        needed = OVERHEAD * (CONTEXT_BYTES + use.fixed + images * use.per_image)
        assert (needed <= 12 * GIB) is fits
    assert use.largest_batch(12) == batch - batch % 8
    assert MemoryUse(fixed=20 * GIB, per_image=1).largest_batch(12) == 0  # not even the network
