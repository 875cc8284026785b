"""What this machine has: GPUs, processors, memory."""

import os
from contextlib import suppress
from typing import NamedTuple

import torch

from ttl_mm.files.regular import read_system


class Machine(NamedTuple):
    """Devices to train on, and what they have left."""

    gpus: int
    cpus: int
    memory: int  # free bytes: of the GPU with the least, or of the machine if there is no GPU
    host_memory: int  # free bytes of the machine

    @property
    def device(self) -> str:
        """'GPU' or 'CPU'."""
        return 'GPU' if self.gpus else 'CPU'


def this_machine() -> Machine:
    """The machine that this process runs on, within the limits of its container."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    host = _free_memory()
    memory = min((torch.cuda.mem_get_info(i)[0] for i in range(gpus)), default=host)
    affinity = getattr(os, 'sched_getaffinity', None)  # not on macOS
    return Machine(gpus, len(affinity(0)) if affinity else os.cpu_count() or 1, memory, host)


def _free_memory() -> int:
    """Bytes that a new process could take: of the machine, and of its control group."""
    free = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    with suppress(OSError, IndexError, ValueError):
        lines = read_system('/proc/meminfo').splitlines()
        (line,) = (line for line in lines if line.startswith('MemAvailable:'))
        free = int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):  # 'max' where there is no limit
        limit, used = (
            int(read_system(f'/sys/fs/cgroup/memory.{name}')) for name in ('max', 'current')
        )
        free = min(free, limit - used)
    return free
