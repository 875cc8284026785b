"""One run as a report sees it: logged quantities against epochs, images, time and cost."""

import math
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ttl_mm.report.dumped_config import lookup

RUNNING_WITHIN_SECONDS = 600


@dataclass
class Run:
    """The merged log of one run; every record has an ``iter``: how many iterations are finished."""

    name: str  # unique among the runs of a report
    records: list[dict]  # one per logged line, iterations ascending
    starts: int  # 1 plus the number of resumes
    modified: float  # when the log was written last, in seconds since 1970
    devices: int  # number of processes that trained
    on_gpu: bool  # whether they had a GPU each
    folder: Path  # work dir
    config: dict  # what of its config can be read without executing it

    @cached_property
    def training(self) -> list[dict]:
        """The records of training iterations."""
        return [record for record in self.records if is_training_line(record)]

    @property
    def max_epochs(self) -> int | None:
        """The length of the run by its config; None for a run that counts iterations."""
        return lookup(self.config, 'train_cfg', 'max_epochs')

    def series(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Iterations and values of a logged quantity, where it is finite."""
        pairs = [(r['iter'], r[key]) for r in self.records if key in r and is_finite(r[key])]
        iterations, values = zip(*pairs) if pairs else ((), ())
        return np.array(iterations, dtype=float), np.array(values, dtype=float)

    def non_finite(self, key: str) -> list[int]:
        """Iterations at which a logged quantity was NaN or infinite."""
        return [r['iter'] for r in self.records if key in r and not is_finite(r[key])]

    @cached_property
    def last_iteration(self) -> int:
        """The newest iteration in the log, 0 for an empty one."""
        return max((record['iter'] for record in self.records), default=0)

    @cached_property
    def iterations_per_epoch(self) -> int | None:
        """Smallest length of an epoch that agrees with all training lines that name their epoch."""
        lengths = [r['iter'] / r['epoch'] for r in self.training if r.get('epoch')]
        return math.ceil(max(lengths) - 1e-9) if lengths else None

    @property
    def status(self) -> str:
        """finished, running or stopped, and how often the run was resumed."""
        running = time.time() - self.modified < RUNNING_WITHIN_SECONDS
        state = 'finished' if self._is_finished() else 'running' if running else 'stopped'
        return state if self.starts == 1 else f'{state}, resumed {self.starts - 1}×'

    def epochs(self, iterations):
        """Epochs finished at each iteration; None where the log has none."""
        return iterations / self.iterations_per_epoch if self.iterations_per_epoch else None

    def images(self, iterations):
        """Images seen by all devices; None where the batch size is not known."""
        per_device = lookup(self.config, 'train_dataloader', 'batch_size')
        return None if per_device is None else iterations * float(per_device * self.devices)

    def hours(self, iterations):
        """Hours of training, from the logged seconds per iteration; None without them."""
        timed = [(r['iter'], r['time']) for r in self.training if is_finite(r.get('time'))]
        if not timed:
            return None
        at, seconds = np.array(timed, dtype=float).T
        total = np.cumsum(seconds * np.diff(at, prepend=0))
        return np.interp(iterations, np.r_[0, at], np.r_[0, total]) / 3600

    @property
    def unit(self) -> str:
        """What the cost is counted in, beside hours."""
        return 'GPU' if self.on_gpu else 'core'

    @cached_property
    def units(self) -> int:
        """GPUs, or CPU cores, that computed at once (data loading not counted)."""
        threads = [record['threads'] for record in self.records if 'threads' in record]
        return self.devices * (1 if self.on_gpu or not threads else threads[-1])

    def cost(self, iterations):
        """GPU hours, or core hours."""
        hours = self.hours(iterations)
        return None if hours is None else hours * self.units

    def _is_finished(self) -> bool:
        length = lookup(self.config, 'train_cfg', 'max_iters')
        if self.max_epochs and self.iterations_per_epoch:
            length = self.max_epochs * self.iterations_per_epoch
        if not (length and self.training):
            return False
        interval = max(np.diff([record['iter'] for record in self.training], prepend=0))
        return length - self.last_iteration < interval  # of logging


def is_training_line(record: dict) -> bool:
    """Whether a line of the log is about training iterations, not about an evaluation."""
    return 'loss' in record or 'lr' in record


def is_finite(value) -> bool:
    """Whether a logged value is a number that can be drawn."""
    return isinstance(value, (int, float)) and math.isfinite(value)
