"""Private functions of torch, all in one place.

``torch._foreach_*`` treats a list of tensors in one kernel. ``torch.optim`` is built on them, and
there is no public spelling; a test compares each with a loop over the tensors.
"""

from collections.abc import Iterator

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

foreach_add = torch._foreach_add
foreach_add_ = torch._foreach_add_
foreach_lerp_ = torch._foreach_lerp_
foreach_mul_ = torch._foreach_mul_
foreach_norm = torch._foreach_norm
foreach_sub_ = torch._foreach_sub_

BatchNorm = _BatchNorm  # the common base of BatchNorm1d to 3d and SyncBatchNorm


def find_group(description: str) -> dist.ProcessGroup | None:
    """The process group that ``new_group`` made with this ``group_desc``, until it is destroyed.

    torch keeps all groups of a process, and has no public way to ask for one.
    """
    groups = distributed_c10d._world.pg_map
    return next((group for group in groups if group.group_desc == description), None)


def end_workers(loader: DataLoader, batches: Iterator) -> None:
    """End the processes that make ``batches`` of ``loader``.

    A loader ends them when its iterator is deleted. If that is in a cycle of references, as after
    an error or in a runner, the garbage collector first waits five seconds for each in vain.
    """
    if hasattr(batches, '_shutdown_workers'):  # not without workers
        batches._shutdown_workers()
    loader._iterator = None  # which the next epoch would take up


def allow_graphs(number: int) -> None:
    """Let torch.compile keep so many graphs of one function, for as many sizes of its input.

    Beyond eight it would run the function as it is. Two views that go different ways in one
    iteration then fail in the backward pass: compiled code writes into the statistics of BatchNorm,
    which the other way has kept.
    """
    config = torch._dynamo.config
    names = [('recompile_limit', 'accumulated_recompile_limit')]
    names += [('cache_size_limit', 'accumulated_cache_size_limit')]  # before torch 2.7
    one, all_of_them = next(pair for pair in names if hasattr(config, pair[0]))
    setattr(config, one, max(number, getattr(config, one)))
    setattr(config, all_of_them, max(4 * number, getattr(config, all_of_them)))
