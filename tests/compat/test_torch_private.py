import torch
from torch import nn

from ttl_mm.compat import torch_private as private


def tensors() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in ((3,), (2, 4), (5, 1))]


def test_foreach_functions_equal_a_loop_over_the_tensors():
    ones = [torch.ones_like(x) for x in tensors()]
    in_place = {
        'add': (private.foreach_add_, lambda x, one: x + 0.5 * one, {'alpha': 0.5}),
        'sub': (private.foreach_sub_, lambda x, one: x - one, {}),
        'mul': (private.foreach_mul_, lambda x, one: x * one, {}),
    }
    for function, expected, options in in_place.values():
        changed = tensors()
        function(changed, ones, **options)
        for x, one, found in zip(tensors(), ones, changed):
            assert found.equal(expected(x, one))
    changed = tensors()
    private.foreach_lerp_(changed, ones, 0.25)
    for x, found in zip(tensors(), changed):
        torch.testing.assert_close(found, x + 0.25 * (1 - x))
    for x, found in zip(tensors(), private.foreach_add(tensors(), ones, alpha=2)):
        assert found.equal(x + 2)
    for x, found in zip(tensors(), private.foreach_norm(tensors())):
        torch.testing.assert_close(found, x.square().sum().sqrt())


def test_batch_norm_is_the_base_of_every_kind():
    for kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm):
        assert issubclass(kind, private.BatchNorm)
    assert not issubclass(nn.GroupNorm, private.BatchNorm)
