"""Do the ranks reach each other, over which interface, and how fast?"""

import os
import re
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.dist import init_dist
from torch import distributed as dist

from ttl_mm.engine.state import control_group
from ttl_mm.files.regular import LOG, read_text

TIMEOUT = 60  # seconds


def connect(nccl_log: Path) -> dict[str, Any]:
    """Join the groups that training uses, and sum the numbers of all ranks, from 1, over each.

    Gradients go over NCCL (over gloo without a GPU), messages between ranks over gloo.
    """
    limit = timedelta(seconds=TIMEOUT)
    if get_device() == 'cuda':
        init_dist('pytorch', backend='nccl', timeout=TIMEOUT)
    else:
        control_group.init_gloo(limit)
    control_group.make_control_group(limit)
    began = time.perf_counter()
    gloo = {
        'sum': sum(control_group.gather(dist.get_rank() + 1)),
        'seconds': time.perf_counter() - began,
        'interface': gloo_interface(),
    }
    if dist.get_backend() != 'nccl':
        return {'gloo': gloo}
    number = torch.tensor([dist.get_rank() + 1], device='cuda')
    dist.all_reduce(number.clone())  # the first one connects
    torch.cuda.synchronize()
    began = time.perf_counter()
    dist.all_reduce(number)
    found = int(number.item())
    seconds = time.perf_counter() - began
    text = read_text(nccl_log, LOG, errors='replace') if nccl_log.exists() else ''
    nccl = {'sum': found, 'seconds': seconds, 'interface': nccl_interface(text)}
    return {'gloo': gloo, 'nccl': nccl}


def gloo_interface() -> str | None:
    """The interface gloo uses: what the environment names, or that of the host's own address."""
    if chosen := os.environ.get('GLOO_SOCKET_IFNAME'):
        return chosen
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return interface_of(address)


def interface_of(address: str) -> str | None:
    """'eth0 (10.0.0.2)' for an address of this machine."""
    try:
        import fcntl  # Linux and macOS alone
    except ImportError:
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = name.encode()[:15].ljust(40, b'\0')
            try:
                answer = fcntl.ioctl(probe, 0x8915, request)  # SIOCGIFADDR
            except OSError:
                continue  # it has no address
            if socket.inet_ntoa(answer[20:24]) == address:
                return f'{name} ({address})'
    return address


def nccl_interface(log: str) -> str | None:
    """What NCCL says it uses, in the log that it writes under ``NCCL_DEBUG=INFO``.

    >>> nccl_interface('node:7:8 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.2<0>')
    'NET/Socket eth0:10.1.0.2<0>'
    """
    match = re.search(r'(NET/\w+) : Using (?:\[0\])?(.*)', log)
    return f'{match[1]} {match[2].strip()}' if match else None
