"""Peak memory of a rank: of its GPU, or of the process where there is none."""

import resource

import torch

from ttl_mm.files.regular import read_system


def reset_peak() -> None:
    """Begin to measure; the peak of a process without a GPU cannot be reset."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> int:
    """Most bytes held so far: what torch reserved on the GPU, or the process in RAM."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_memory() -> int:
    """Bytes of RAM that this process holds now; 0 where the system does not tell."""
    try:
        return int(read_system('/proc/self/statm').split()[1]) * resource.getpagesize()
    except OSError:
        return 0
