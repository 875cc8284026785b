"""A function in two processes that form a group."""

import tempfile
from pathlib import Path

import torch
from torch import distributed, multiprocessing


def in_two_processes(folder: Path, function, *arguments) -> list:
    """What ``function(rank, *arguments)`` returns for rank 0 and for rank 1.

    Each group meets in a store of its own: one that is left of an earlier group below the same
    folder still names the ports of processes that have ended.
    """
    folder = Path(tempfile.mkdtemp(dir=folder))
    passed = folder, function, arguments
    multiprocessing.start_processes(_run_rank, passed, nprocs=2, start_method='fork')
    return [torch.load(folder / f'rank_{rank}.pt', weights_only=True) for rank in (0, 1)]


def _run_rank(rank: int, folder: Path, function, arguments: tuple) -> None:
    init = f'file://{folder}/store'
    distributed.init_process_group('gloo', init_method=init, rank=rank, world_size=2)
    torch.save(function(rank, *arguments), folder / f'rank_{rank}.pt')
    distributed.destroy_process_group()
