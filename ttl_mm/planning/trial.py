"""A few real steps on this machine, in processes of their own: what a run will cost."""

import signal
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from ttl_mm.engine.runner.processes import Given, train_in_processes
from ttl_mm.engine.state.exit_codes import INTERRUPTED, PREEMPTED
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import LOG, read_text

MOST_STEPS = 100
SECONDS = 8.0  # to measure, at least
SHARE_OF_RUN = 0.04  # of the hours that are given, to measure instead
MOST_SECONDS = 60.0
ENDED_BY_USER = (INTERRUPTED, PREEMPTED, -signal.SIGINT, -signal.SIGTERM)
OUT_OF_MEMORY = ('out of memory', "can't allocate memory", 'not enough memory')


class Trial(NamedTuple):
    """What the steps cost, in seconds and bytes."""

    start_up: float  # from the command to the first step
    preparation: float  # of that, what hooks took: a first probe
    warm_up: float  # what the first steps took longer than others
    step: float  # mean of the steps that were counted
    steps: int  # so many were counted
    cpu: float  # CPU time of a step: what it would take if nothing else ran
    save: float
    checkpoint: int
    memory: int


def run_trial(
    config: Config, ranks: int = 1, hours: float | None = None, given: Given | None = None
) -> Trial:
    """Train some steps by ``config``, for some seconds, and forget them.

    A run of given ``hours`` is measured the longer the more of them there are, up to a minute.

    Raises:
        UserError: They failed; the message is that of the run.
    """
    with tempfile.TemporaryDirectory(prefix='ttl_trial_') as name:
        folder = Path(name)
        out, log = folder / 'trial.json', folder / 'log.txt'
        path = folder / 'trial.py'
        seconds = max(SECONDS, min(MOST_SECONDS, SHARE_OF_RUN * 3600 * (hours or 0)))
        trial_config(config, out, seconds).dump(path)
        code = train_in_processes(path, folder / 'run', ranks, log, given)
        if code in ENDED_BY_USER:
            raise KeyboardInterrupt
        if code:
            raise UserError(_reason(code, read_text(log, LOG, errors='replace')))
        return read_trial(read_json(out))


def trial_config(config: Config, out: Path, seconds: float) -> Config:
    """The config of the run, but for its length and what it saves."""
    config = deepcopy(config)
    config.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': MOST_STEPS}
    config.default_hooks.checkpoint = {'type': 'ttl_mm.CheckpointHook', 'save_last': False}
    config.default_hooks.update(judge=None, early_stop=None)
    config.default_hooks.trial = {
        'type': 'ttl_mm.TrialHook', 'out': str(out), 'started': time.time(), 'seconds': seconds,
    }  # fmt: skip
    return config


def read_trial(measured: dict) -> Trial:
    """Leave out the first third of the steps: caches warm up, and loaded batches are waiting."""
    first = max(2, len(measured['steps']) // 3)
    counted, cpu = (measured[name][first:] for name in ('steps', 'cpu'))
    means = {'step': sum(counted) / len(counted), 'cpu': sum(cpu) / len(cpu)}
    warm_up = max(0.0, sum(measured['steps'][:first]) - first * means['step'])
    return Trial(**{**measured, **means, 'steps': len(counted), 'warm_up': warm_up})


def _reason(code: int, log: str) -> str:
    """One sentence about a trial that failed."""
    if code == -signal.SIGKILL or any(words in log.lower() for words in OUT_OF_MEMORY):
        return (
            'the memory does not suffice for a few steps of this run: choose a smaller --size or '
            'a smaller --backbone.'
        )
    lines = [line for line in log.splitlines() if line.strip()]
    last = lines[-1].removeprefix('error: ') if lines else 'it printed nothing'
    return f'a few steps on trial ended with code {code}: {last}'
