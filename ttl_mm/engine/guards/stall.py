"""End the run when a rank no longer answers, and say which."""

import os
import sys
import threading
import time
from datetime import timedelta

from mmengine.dist import get_dist_info
from mmengine.hooks import Hook
from torch import distributed as dist

from ttl_mm.engine.exit_codes import STALLED, tell_launcher
from ttl_mm.registry import HOOKS

PERIOD = 1.0  # seconds between two looks


@HOOKS.register_module()
class StallHook(Hook):
    """A thread on every rank that ends its process after ``timeout`` seconds without a step.

    Where one rank hangs, all the others wait for it in the next collective, so every survivor
    notices. Each rank's thread counts aloud in the store of the job: a rank whose count stands
    still is stopped or gone, otherwise the one that is furthest behind is stuck. It also ends the
    process when the launcher has died, so that no orphan trains on.

    Args:
        timeout: Seconds; by default ``env_cfg.dist_cfg.timeout``.
    """

    priority = 'VERY_LOW'

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout
        self._done = threading.Event()

    def before_train(self, runner) -> None:
        self.timeout = self.timeout or runner.cfg.env_cfg.get('dist_cfg', {}).get('timeout')
        self.rank, self.world_size = get_dist_info()
        self._step, self._moved = runner.iter, time.monotonic()
        if self.world_size > 1 and self.timeout and 'MASTER_ADDR' in os.environ:
            self._launcher = os.getppid()
            self._store = dist.TCPStore(
                os.environ['MASTER_ADDR'],
                int(os.environ['MASTER_PORT']),
                is_master=False,
                timeout=timedelta(seconds=5),
            )
            threading.Thread(target=self._watch, daemon=True).start()

    def _after_iter(self, runner, *args, **kwargs) -> None:
        self._step, self._moved = runner.iter, time.monotonic()

    def after_train(self, runner) -> None:
        self._done.set()

    def _watch(self) -> None:
        count = 0
        while not self._done.wait(PERIOD):
            if os.getppid() != self._launcher:
                os._exit(STALLED)
            count += 1
            try:
                self._store.set(f'ttl_mm/{self.rank}', f'{count} {self._step}')
                if time.monotonic() - self._moved > self.timeout:
                    self._end(self._name_the_rank())
            except RuntimeError as error:  # the store went with the rank or the launcher
                if time.monotonic() - self._moved > self.timeout:
                    self._end(f'the store of the job does not answer ({error})')

    def _name_the_rank(self) -> str:
        before = self._read()
        count = int(before[self.rank][0])
        for _ in range(3):
            time.sleep(PERIOD)
            count += 1
            self._store.set(f'ttl_mm/{self.rank}', f'{count} {self._step}')
        after = self._read()
        silent = [rank for rank in after if before[rank][0] == after[rank][0]]
        if silent:
            return f'rank {_listed(silent)} does not answer any more (stopped, or its machine gone)'
        least = min(int(step) for _, step in after.values())
        behind = [rank for rank, (_, step) in after.items() if int(step) == least]
        return f'rank {_listed(behind)} hangs after iteration {least}'

    def _read(self) -> dict[int, list[str]]:
        keys = [f'ttl_mm/{rank}' for rank in range(self.world_size)]
        return {
            rank: self._store.get(key).decode().split() if self._store.check([key]) else ['-', '-1']
            for rank, key in enumerate(keys)
        }

    def _end(self, finding: str) -> None:
        print(
            f'stopped: no step for {self.timeout:g} s on rank {self.rank}: {finding}. Start again '
            f'with --resume (exit code {STALLED}).',
            file=sys.stderr,
            flush=True,
        )
        tell_launcher(STALLED)
        os._exit(STALLED)


def _listed(ranks: list[int]) -> str:
    return ', '.join(map(str, ranks))
