"""A second process group, on the CPU, for messages between ranks other than gradients.

It costs the device nothing, and a rank that does not answer is noticed after the same time-out.
"""

from datetime import timedelta
from typing import Any

import torch
from mmengine.dist import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    get_world_size,
)
from torch import distributed as dist

# One per process, like torch's own default group: the hooks that use it have no common owner.
_group: Any = None


def make_control_group(timeout: timedelta | None) -> None:
    """Called once on every rank, after the process group exists."""
    global _group
    if _group is None and get_world_size() > 1:
        _group = dist.new_group(backend='gloo', timeout=timeout)


def gather(value: Any) -> list[Any]:
    """The values of all ranks, on every rank; collective."""
    return all_gather_object(value, _group)


def gather_to_first(value: Any) -> list[Any] | None:
    """The values of all ranks on rank 0, None elsewhere; collective."""
    return gather_object(value, group=_group)


def from_first(value: Any) -> Any:
    """The value of rank 0, on every rank; collective."""
    box = [value]
    broadcast_object_list(box, group=_group)
    return box[0]


class AnyRank:
    """Whether any rank has said yes, known to all ranks in the same iteration.

    The answers of one iteration are exchanged while the next one runs, so nobody waits for them.
    """

    def __init__(self) -> None:
        self._answer = torch.zeros(1, dtype=torch.int64)
        self._work: Any = None

    def exchange(self, yes: bool) -> bool:
        """Send the answer of this iteration; return whether any rank said yes in the one before.

        A single process gets its own answer back at once.
        """
        if get_world_size() == 1:
            return yes
        any_yes = False
        if self._work is not None:
            self._work.wait()
            any_yes = bool(self._answer.item())
        self._answer = torch.tensor([int(yes)])
        self._work = dist.all_reduce(self._answer, dist.ReduceOp.MAX, group=_group, async_op=True)
        return any_yes
