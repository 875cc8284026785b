"""End the run when a rank no longer answers, and say which."""

import os
import sys
import threading
import time
from datetime import timedelta
from itertools import count

from mmengine.dist import get_dist_info
from mmengine.hooks import Hook
from torch import distributed as dist

from ttl_mm.engine.state.exit_codes import STALLED, tell_launcher
from ttl_mm.registry import HOOKS

PERIOD = 0.5  # seconds between two checks
PATIENCE = 8.0  # seconds that torch's key-value store of the job gets to answer


@HOOKS.register_module()
class StallHook(Hook):
    """A thread on every rank that ends its process after ``timeout`` seconds without a step.

    If one rank hangs, all others wait for it in the next collective, so every survivor notices.
    Each thread writes a counter and the current iteration into torch's key-value store of the job,
    twice a second. A rank whose counter stands still is stopped or gone; if all counters move, the
    rank at the lowest iteration hangs. The process also ends when the launcher has died.

    Args:
        timeout: Seconds; by default ``env_cfg.dist_cfg.timeout``, or half an hour.
    """

    priority = 'VERY_LOW'

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout or 0.0
        self._done = threading.Event()

    def before_train(self, runner) -> None:
        configured = runner.cfg.get('env_cfg', {}).get('dist_cfg', {}).get('timeout')
        self.timeout = self.timeout or configured or 1800
        self.rank, self.world_size = get_dist_info()
        self._step, self._moved = runner.iter, time.monotonic()
        if self.world_size > 1 and 'MASTER_ADDR' in os.environ:
            self._launcher = os.getppid()
            address = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
            patience = timedelta(seconds=PATIENCE)
            self._store = dist.TCPStore(*address, is_master=False, timeout=patience)  # type: ignore[attr-defined]
            for job in (self._report_progress, self._watch):
                threading.Thread(target=job, daemon=True).start()

    def _after_iter(self, runner, *args, **kwargs) -> None:
        self._step, self._moved = runner.iter, time.monotonic()

    def after_train(self, runner) -> None:
        self._done.set()

    def _report_progress(self) -> None:
        """Write counter and iteration into the store. Blocks, or fails, when the store is gone."""
        for number in count():
            self._store.set(f'ttl_mm/{self.rank}', f'{number} {self._step}')
            if self._done.wait(PERIOD):
                return

    def _watch(self) -> None:
        """End the process after the time-out; never waits for another rank or for the store."""
        while not self._done.wait(PERIOD):
            if os.getppid() != self._launcher:
                self._end('the launcher is gone')
            if time.monotonic() - self._moved > self.timeout:
                finding = ['rank 0, which keeps the store of the job, does not answer']
                asking = threading.Thread(target=self._name_the_rank, args=(finding,), daemon=True)
                asking.start()
                asking.join(PATIENCE)
                self._end(finding[-1])

    def _name_the_rank(self, finding: list[str]) -> None:
        before = self._read()
        time.sleep(3 * PERIOD)
        after = self._read()
        silent = [str(rank) for rank in range(self.world_size) if before[rank] == after[rank]]
        least = min(step for _, step in after)
        behind = [str(rank) for rank, (_, step) in enumerate(after) if step == least]
        if silent:
            finding.append(f'rank {", ".join(silent)} does not answer, it is stopped or gone')
        else:
            finding.append(f'rank {", ".join(behind)} hangs after iteration {least + 1}')

    def _read(self) -> list[list[int]]:
        """The counter and the iteration of every rank; -1 before its first report."""
        keys = [f'ttl_mm/{rank}' for rank in range(self.world_size)]
        reports = (self._store.get(k) if self._store.check([k]) else '-1 -1' for k in keys)
        return [[int(number) for number in report.split()] for report in reports]

    def _end(self, finding: str) -> None:
        message = (
            f'stopped: rank {self.rank} made no step for {self.timeout:g} s: {finding}. Start '
            f'again with --resume (exit code {STALLED}).'
        )
        print(message, file=sys.stderr, flush=True)
        tell_launcher(STALLED)
        os._exit(STALLED)
