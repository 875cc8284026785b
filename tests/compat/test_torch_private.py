import multiprocessing

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.utils.data import DataLoader

from ttl_mm.compat import torch_private as private


def tensors() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in ((3,), (2, 4), (5, 1))]


def test_foreach_functions_equal_a_loop_over_the_tensors():
    twos = [torch.full_like(x, 2) for x in tensors()]
    for function, options, expected in (
        (private.foreach_add_, {'alpha': 0.5}, lambda x: x + 1),
        (private.foreach_sub_, {}, lambda x: x - 2),
        (private.foreach_mul_, {}, lambda x: x * 2),
        (private.foreach_lerp_, {'weight': 0.25}, lambda x: x + 0.25 * (2 - x)),
    ):
        changed = tensors()
        function(changed, twos, **options)
        torch.testing.assert_close(changed, [expected(x) for x in tensors()])
    sums = private.foreach_add(tensors(), twos, alpha=2)
    torch.testing.assert_close(list(sums), [x + 4 for x in tensors()])
    norms = [x.square().sum().sqrt() for x in tensors()]
    torch.testing.assert_close(list(private.foreach_norm(tensors())), norms)


def test_batch_norm_is_the_base_of_every_kind():
    for kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm):
        assert issubclass(kind, private.BatchNorm)
    assert not issubclass(nn.GroupNorm, private.BatchNorm)


def test_a_group_is_found_by_its_description_until_it_is_destroyed():
    assert private.find_group('ours') is None
    dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    try:
        made = [dist.new_group(backend='gloo', group_desc=name) for name in ('ours', 'others')]
        assert private.find_group('ours') is made[0]
        assert private.find_group('others') is made[1]
        assert private.find_group('nobody') is None
    finally:
        dist.destroy_process_group()
    assert private.find_group('ours') is None


@pytest.mark.parametrize('persistent', [False, True])
def test_workers_are_ended_and_an_epoch_can_begin_afterwards(persistent):
    loader = DataLoader(range(6), num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    private.end_workers(loader, batches)
    assert multiprocessing.active_children() == []
    assert torch.cat(list(loader)).tolist() == [*range(6)]
    private.end_workers(loader, iter(()))
