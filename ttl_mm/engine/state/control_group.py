"""A second process group, on the CPU, for messages between ranks other than gradients.

It costs the device nothing, and a rank that does not answer is noticed after the same time-out.
"""

import os
import socket
from collections.abc import Callable
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

from ttl_mm.compat.torch_private import find_group
from ttl_mm.errors import UserError

NAME = 'ttl_mm control'


def make_control_group(timeout: timedelta | None) -> None:
    """Called on every rank, after the process group exists; a second call changes nothing."""
    if get_world_size() > 1 and control_group() is None:
        _connect(dist.new_group, timeout=timeout, group_desc=NAME)


def control_group() -> Any:
    """The group, which torch keeps; None (the default group) where none was made."""
    return find_group(NAME)


def init_gloo(timeout: timedelta) -> None:
    """The process group of machines without GPUs."""
    _connect(dist.init_process_group, timeout=timeout)


def _connect(make: Callable[..., Any], **settings: Any) -> Any:
    """A gloo group on the interface that was chosen for NCCL, unless another was for gloo.

    Without a choice gloo takes the address that the host's name resolves to, which is often one of
    the loop-back interface (127.0.x.x), where no other machine can reach it.
    """
    chosen = os.environ.get('NCCL_SOCKET_IFNAME')
    if chosen:
        names = [name for _, name in socket.if_nameindex()]
        os.environ.setdefault('GLOO_SOCKET_IFNAME', gloo_interface(chosen, names))
    try:
        return make(backend='gloo', **settings)
    except RuntimeError as error:
        raise UserError(
            'the ranks cannot reach each other with gloo (GLOO_SOCKET_IFNAME='
            f'{os.environ.get("GLOO_SOCKET_IFNAME", "")!r}): {error}. Set GLOO_SOCKET_IFNAME on '
            'every machine to the interface that connects them; `ip -br addr` lists all.'
        ) from error


def gloo_interface(nccl: str, names: list[str]) -> str:
    """The interface for gloo, which takes a name, that NCCL_SOCKET_IFNAME selects by its rules.

    A leading ``=`` asks for exact names, ``^`` excludes those that begin so; else names begin so.

    >>> gloo_interface('ib', ['lo', 'eth0', 'ib0', 'ib1'])
    'ib0'
    >>> gloo_interface('^docker,lo', ['lo', 'docker0', 'eth0'])
    'eth0'
    """
    excludes, exact = nccl.startswith('^'), nccl.lstrip('^').startswith('=')
    wanted = [part for part in nccl.lstrip('^=').split(',') if part]
    matches = [any(n == w if exact else n.startswith(w) for w in wanted) for n in names]
    found = [n for n, match in zip(names, matches) if match != excludes and n != 'lo']
    return found[0] if found else nccl  # gloo's error will show it


def gather(value: Any) -> list[Any]:
    """The values of all ranks, on every rank; collective."""
    return all_gather_object(value, control_group())


def gather_to_first(value: Any) -> list[Any] | None:
    """The values of all ranks on rank 0, None elsewhere; collective."""
    return gather_object(value, group=control_group())


def from_first(value: Any) -> Any:
    """The value of rank 0, on every rank; collective."""
    box = [value]
    broadcast_object_list(box, group=control_group())
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
        self._work = dist.all_reduce(
            self._answer, dist.ReduceOp.MAX, group=control_group(), async_op=True
        )
        return any_yes
