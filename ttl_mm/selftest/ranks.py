"""The processes of the self-test: each rank goes through stages and writes down what it found."""

import json
import os
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch.multiprocessing.spawn import ProcessException, start_processes

from ttl_mm.engine.optim.amp import DTYPES
from ttl_mm.engine.runner.launch import train
from ttl_mm.engine.state.exit_codes import Preempted
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import LOG, read_text
from ttl_mm.selftest.gradient import compare_with_float64
from ttl_mm.selftest.memory import resident_memory
from ttl_mm.selftest.network import connect
from ttl_mm.selftest.ops import measure_ops


@dataclass(frozen=True)
class Job:
    """What every process needs to know.

    Args:
        folder: Holds the configs; gets work dirs, findings and logs.
        ranks: Number of processes.
        amp: Precision of the recipe: 'fp16', 'bf16' or 'off'.
        scaled: Precision of the run whose loss is scaled.
        seconds: After this time the processes are ended.
    """

    folder: Path
    ranks: int
    amp: str
    scaled: str
    seconds: float


#: run on all ranks, in this order; a run that is asked to end leaves threads behind, so it is last
FIRST = ('connect', 'whole', 'infinity', 'interrupt')
#: in new processes; the first two on rank 0 alone
SECOND = ('gradient', 'ops', 'resume')


def run_ranks(job: Job, stages: tuple[str, ...], start_method: str = 'spawn') -> None:
    """Run stages on all ranks; returns when they have ended, or were ended for taking too long."""
    ranks = start_processes(
        _run_rank, (job, stages, _free_port()), job.ranks, join=False, start_method=start_method
    )
    deadline = time.monotonic() + job.seconds
    try:
        while not ranks.join(timeout=1, grace_period=5) and time.monotonic() < deadline:
            pass
    except ProcessException as error:
        (job.folder / 'log_launcher.txt').write_text(str(error))
    finally:
        for process in ranks.processes:
            if process.is_alive():
                process.kill()


def findings(folder: Path, ranks: int) -> list[dict[str, dict[str, Any]]]:
    """What every rank wrote: {stage: values}; a stage that failed has the key 'error'."""
    paths = [folder / f'found_{rank}.json' for rank in range(ranks)]
    return [read_json(path, allow_nan=True) if path.exists() else {} for path in paths]


def log_tails(folder: Path, lines: int = 60) -> dict[str, list[str]]:
    """The last lines that every rank printed."""
    logs = sorted(folder.glob('log_*.txt'))
    return {log.stem: read_text(log, LOG, errors='replace').splitlines()[-lines:] for log in logs}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def _run_rank(rank: int, job: Job, stages: tuple[str, ...], port: int) -> None:
    with open(job.folder / f'log_{rank}.txt', 'a', buffering=1) as log:
        sys.stdout = sys.stderr = log
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=job.ranks, MASTER_PORT=port)
        os.environ.update({name: str(value) for name, value in place.items()})
        os.environ.update(MASTER_ADDR='127.0.0.1', LOCAL_WORLD_SIZE=str(job.ranks))
        # NCCL then says which network it uses
        os.environ.update(NCCL_DEBUG='INFO', NCCL_DEBUG_SUBSYS='INIT,NET')
        os.environ['NCCL_DEBUG_FILE'] = str(_nccl_log(job, rank))
        warnings.simplefilter('default')  # whoever forked this process may make errors of them
        torch.set_num_threads(threads(job.ranks))
        for stage in stages:
            try:
                _note(job, rank, stage, STAGES[stage](job, rank))
            except Exception as error:  # whatever it is, it is what the user wants to know
                traceback.print_exc()
                _note(job, rank, stage, {'error': f'{type(error).__name__}: {error}'})
                if stage not in _ALONE:
                    break
        os._exit(0)  # threads and groups of a run that was interrupted end here too


def threads(ranks: int) -> int:
    """Threads of one of so many busy processes: its share of the cores, or what the user says."""
    asked = os.environ.get('OMP_NUM_THREADS', '')
    return int(asked) if asked.isdigit() else max(1, (os.cpu_count() or 1) // ranks)


def _note(job: Job, rank: int, stage: str, values: dict[str, Any]) -> None:
    path = job.folder / f'found_{rank}.json'
    found = read_json(path, allow_nan=True) if path.exists() else {}
    path.write_text(json.dumps({**found, stage: values}))


def _nccl_log(job: Job, rank: int) -> Path:
    return job.folder / f'nccl_{rank}.txt'


def _connect(job: Job, rank: int) -> dict[str, Any]:
    return connect(_nccl_log(job, rank)) if job.ranks > 1 else {}


def _train(config: str, work: str, interrupted: bool = False, **options: Any) -> Callable:
    """A stage that trains by a config in the folder of the job, as ``tools/train.py`` would."""

    def stage(job: Job, rank: int) -> dict[str, Any]:
        before = resident_memory()
        path, work_dir = job.folder / f'{config}.py', job.folder / work
        launcher = 'pytorch' if job.ranks > 1 else 'none'
        amp = job.scaled if config == 'infinity' else job.amp
        arguments = dict(work_dir=str(work_dir), launcher=launcher, amp=amp, **options)
        try:
            train(str(path), **arguments)
            asked_to_end = False
        except Preempted:
            asked_to_end = True
        if asked_to_end != interrupted:
            raise RuntimeError('the run did not end after SIGTERM' if interrupted else 'SIGTERM')
        measured = job.folder / config / f'{rank}.json'
        values = read_json(measured, allow_nan=True) if measured.exists() else {}
        return {'resident_before': before, **values}

    return stage


def _gradient(job: Job, rank: int) -> dict[str, Any]:
    if rank > 0:
        return {}
    torch.set_num_threads(threads(1))  # the others wait
    try:
        return compare_with_float64(Config.fromfile(job.folder / 'whole.py'), DTYPES.get(job.amp))
    finally:
        torch.set_num_threads(threads(job.ranks))


def _ops(job: Job, rank: int) -> dict[str, Any]:
    return measure_ops() if rank == 0 else {}


_ALONE = ('gradient', 'ops')  # the others go on if one of these fails
STAGES: dict[str, Callable[[Job, int], dict[str, Any]]] = {
    'connect': _connect,
    'whole': _train('whole', 'whole_run'),
    'infinity': _train('infinity', 'infinity_run'),
    'interrupt': _train('interrupt', 'parts_run', interrupted=True),
    'gradient': _gradient,
    'ops': _ops,
    'resume': _train('resume', 'parts_run', resume='auto'),
}
