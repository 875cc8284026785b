"""Measure a few real steps: time, memory and the size of a checkpoint."""

import json
import resource
import sys
import time
from pathlib import Path

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.state.control_group import from_first
from ttl_mm.registry import HOOKS

FEWEST = 6  # steps, of which the first are not counted


@HOOKS.register_module()
class TrialHook(Hook):
    """End a run after some steps and write what they cost into a JSON file.

    =================  ===================================================================
    ``start_up``       seconds from ``started`` to the first step
    ``preparation``    seconds of that which other hooks took, such as a first probe
    ``steps``          seconds of every step, waiting for data and hooks included
    ``cpu``            the same in CPU time of this process, which other programs disturb less
    ``save``           seconds that a checkpoint took
    ``checkpoint``     its bytes
    ``memory``         most bytes held at once: on a GPU by torch, else by this process
    =================  ===================================================================

    Args:
        out: The file.
        started: When the process was started, in seconds since 1970.
        seconds: How long to measure; six steps are made in any case.
    """

    priority = 'LOWEST'  # behind the other hooks, so that a step includes them

    def __init__(self, out: str, started: float, seconds: float) -> None:
        self.out, self.started, self.seconds = Path(out), started, seconds
        self.steps: list[float] = []
        self.cpu: list[float] = []

    def before_run(self, runner) -> None:
        self._built = time.time()

    def before_train(self, runner) -> None:
        self._ready = self._last = time.time()
        self._last_cpu = time.process_time()

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        now, cpu = time.time(), time.process_time()
        self.steps.append(now - self._last)
        self.cpu.append(cpu - self._last_cpu)
        self._last, self._last_cpu = now, cpu
        # the first step, which may compile the networks, is no measure of the others
        enough = len(self.steps) >= FEWEST and now - self._ready > self.seconds + self.steps[0]
        if from_first(enough or runner.iter + 1 == runner.max_iters):
            self._finish(runner)
            runner.train_loop.stop_training = True

    def _finish(self, runner) -> None:
        checkpoint = next(hook for hook in runner.hooks if isinstance(hook, CheckpointHook))
        before = time.time()
        checkpoint.save(runner, 'trial.pth', runner.epoch, runner.iter + 1)
        if is_main_process():
            measured = {
                'start_up': self._ready - self.started,
                'preparation': self._ready - self._built,
                'steps': self.steps,
                'cpu': self.cpu,
                'save': time.time() - before,
                'checkpoint': (Path(runner.work_dir) / 'trial.pth').stat().st_size,
                'memory': peak_memory(),
            }
            self.out.write_text(json.dumps(measured))


def peak_memory() -> int:
    """Most bytes held at once since the start: on a GPU by torch, else by this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved()
    unit = 1 if sys.platform == 'darwin' else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
