"""A second process group, on the CPU, for what ranks tell each other beside gradients.

It costs the device nothing, and a rank that does not answer is noticed after the same time-out.
"""

import datetime
from typing import Any

import torch
from mmengine.dist import get_dist_info
from torch import distributed as dist

_group: Any = None


def make_control_group(timeout_seconds: float | None) -> None:
    """Called once on every rank, after the process group exists."""
    global _group
    if _group is None and get_dist_info()[1] > 1:
        timeout = None if timeout_seconds is None else datetime.timedelta(seconds=timeout_seconds)
        _group = dist.new_group(backend='gloo', timeout=timeout)


def gather(value: Any) -> list[Any]:
    """The values of all ranks, on every rank; collective."""
    _, world_size = get_dist_info()
    if world_size == 1:
        return [value]
    values = [None] * world_size
    dist.all_gather_object(values, value, group=_group)
    return values


def gather_to_first(value: Any) -> list[Any] | None:
    """The values of all ranks on rank 0, None elsewhere; collective."""
    rank, world_size = get_dist_info()
    if world_size == 1:
        return [value]
    values = [None] * world_size if rank == 0 else None
    dist.gather_object(value, values, dst=0, group=_group)
    return values


def from_first(value: Any) -> Any:
    """The value of rank 0, on every rank; collective."""
    if get_dist_info()[1] == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, group=_group)
    return box[0]


class Vote:
    """Whether any rank raised its hand, known to all ranks in the same iteration.

    The ballot of one iteration is counted while the next one runs, so nobody waits for it.
    """

    def __init__(self) -> None:
        self._ballot: torch.Tensor | None = None
        self._work: Any = None

    def cast(self, raised: bool) -> bool:
        """Hand in this iteration's vote and return the outcome of the one before.

        In a run of one process the vote counts at once.
        """
        if get_dist_info()[1] == 1:
            return raised
        outcome = False
        if self._work is not None:
            self._work.wait()
            outcome = bool(self._ballot.item())
        self._ballot = torch.tensor([int(raised)])
        self._work = dist.all_reduce(self._ballot, dist.ReduceOp.MAX, group=_group, async_op=True)
        return outcome
