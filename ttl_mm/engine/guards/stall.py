"""End the run when a rank no longer answers, and say which."""

import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

from mmengine.dist import get_dist_info
from mmengine.hooks import Hook
from torch import distributed as dist

from ttl_mm.compat.mmengine_private import built_train_loop
from ttl_mm.engine.guards.preemption import PreemptionHook
from ttl_mm.engine.state.control_group import gather
from ttl_mm.engine.state.exit_codes import STALLED, end_process
from ttl_mm.engine.state.signs_of_life import report_life, signs_of_life
from ttl_mm.registry import HOOKS

TIMEOUT = 1800  # seconds, where a config has no env_cfg.dist_cfg.timeout
PERIOD = 0.5  # seconds between two reports of a rank
RANKS_PER_PERIOD = 64  # more ranks report more rarely: each of them reads the reports of all
PATIENCE = 8.0  # seconds that torch's key-value store of the job gets to answer


class Report(NamedTuple):
    """What a rank says about itself."""

    number: int  # grows while the process lives
    step: int
    life: int  # signs of life from hooks that work for long


class Peers:
    """When each rank last reported, and when any of them last got on."""

    def __init__(self, now: float) -> None:
        self.reports: dict[int, Report] = {}
        self._changed: dict[int, float] = {}
        self.progress = now  # when any rank last made a step or gave a sign of life

    def see(self, reports: dict[int, Report], now: float) -> None:
        """Take note of the newest reports."""
        for rank, report in reports.items():
            before = self.reports.get(rank)
            if report != before:
                self._changed[rank] = now
            if before is None or report[1:] != before[1:]:
                self.progress = now
        self.reports = reports

    def silent(self, now: float, seconds: float) -> list[int]:
        """The ranks that have reported nothing for so long."""
        return [rank for rank, changed in self._changed.items() if now - changed > seconds]

    def behind(self) -> tuple[list[int], int]:
        """The ranks at the lowest step, and that step."""
        least = min(report.step for report in self.reports.values())
        return [rank for rank, report in self.reports.items() if report.step == least], least


@HOOKS.register_module()
class StallHook(Hook):
    """Threads on every rank that end its process when the job cannot go on.

    Every rank writes a report (:class:`Report`) into torch's key-value store of the job twice a
    second and reads those of all others. A process ends, and says why,

    - after ``silence`` seconds without a report of some rank: it is stopped or gone, or so is
      rank 0, which keeps the store of a job that torchrun did not start;
    - after ``timeout`` seconds in which no rank made a step or gave a sign of life
      (:mod:`ttl_mm.engine.state.signs_of_life`): the rank at the lowest iteration hangs, and all
      others wait for it in a collective;
    - when its launcher is gone, unless it is about to save and end anyway.

    A rank that ends with an error ends the others sooner
    (:func:`ttl_mm.engine.state.exit_codes.follow_first`).

    Assumed of a GPU: a rank that waits for NCCL or CUDA does not hold Python's global lock, so its
    threads go on reporting.

    Args:
        timeout: Seconds; by default ``env_cfg.dist_cfg.timeout``, or half an hour.
        silence: Seconds.
    """

    priority = 'VERY_LOW'

    def __init__(self, timeout: float | None = None, silence: float = 60.0) -> None:
        self.timeout, self.silence = timeout or 0.0, silence
        self._done = threading.Event()
        self._reporting: threading.Thread | None = None

    def before_run(self, runner) -> None:
        configured = runner.cfg.get('env_cfg', {}).get('dist_cfg', {}).get('timeout')
        self.timeout = self.timeout or configured or TIMEOUT
        self.rank, self.world_size = get_dist_info()
        if self.world_size == 1 or 'MASTER_ADDR' not in os.environ:
            return
        if built_train_loop(runner) is None:
            return  # a test run
        self._launcher = os.getppid()
        self._period = PERIOD * max(1.0, self.world_size / RANKS_PER_PERIOD)
        self._preemption = next((h for h in runner.hooks if isinstance(h, PreemptionHook)), None)
        address = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
        patience = timedelta(seconds=PATIENCE)
        self._store = dist.TCPStore(*address, is_master=False, timeout=patience)  # type: ignore[attr-defined]
        self._heard = time.monotonic()  # when the store last answered
        self._peers = Peers(self._heard)
        self._reporting = threading.Thread(target=self._report, args=(runner,), daemon=True)
        self._reporting.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def after_val_iter(self, runner, *args, **kwargs) -> None:
        report_life(runner)

    def after_train(self, runner) -> None:
        if self._reporting is not None:
            gather(None)  # nobody leaves, and falls silent, before all have finished
            self._done.set()
            self._reporting.join(PATIENCE)

    def _report(self, runner: Any) -> None:
        """Exchange reports. Blocks, or ends, when the store is gone."""
        for number in count():
            report = Report(number, runner.iter, signs_of_life(runner))
            try:
                self._store.set(f'ttl_mm/{self.rank}', ' '.join(map(str, report)))
                reports = self._read()
            except RuntimeError:  # of torch, when the connection is lost
                return
            self._heard = time.monotonic()
            self._peers.see(reports, self._heard)
            if self._done.wait(self._period):
                return

    def _read(self) -> dict[int, Report]:
        """The reports of the ranks that have written one."""
        keys = {f'ttl_mm/{rank}': rank for rank in range(self.world_size)}
        if not self._store.check(list(keys)):
            keys = {key: rank for key, rank in keys.items() if self._store.check([key])}
        texts = self._store.multi_get(list(keys))
        return {r: Report(*map(int, text.split())) for r, text in zip(keys.values(), texts)}

    def _watch(self) -> None:
        """End the process when it is time; waits neither for another rank nor for the store."""
        while not self._done.wait(PERIOD):
            now = time.monotonic()
            if now - self._heard > self.silence:
                self._end_stalled(self._store_is_silent())
            elif silent := self._peers.silent(now, self.silence):
                self._end_stalled(silence_in_words(silent))
            elif now - self._peers.progress > self.timeout:
                self._end_stalled(self._why_nothing_moves(now))
            elif os.getppid() != self._launcher and not self._is_leaving():
                self._end_stalled('the launcher is gone')

    def _is_leaving(self) -> bool:
        return self._preemption is not None and self._preemption.asked

    def _store_is_silent(self) -> str:
        host = os.environ['MASTER_ADDR']
        return f'the store of the job on {host} does not answer: rank 0 or its launcher is gone'

    def _why_nothing_moves(self, now: float) -> str:
        short = max(3 * self._period, min(self.timeout, self.silence) / 2)
        no_step = f'no rank made a step for {self.timeout:g} s'
        if now - self._heard > short:
            return f'{no_step}; {self._store_is_silent()}'
        if silent := self._peers.silent(now, short):
            return f'{no_step}; {silence_in_words(silent)}'
        behind, step = self._peers.behind()
        hangs = 'hangs' if len(behind) == 1 else 'hang'
        return f'{no_step}; {_ranks(behind)} {hangs} after iteration {step}'

    def _end_stalled(self, finding: str) -> None:
        end_process(f'{finding}. Start again with --resume (exit code {STALLED})', STALLED)


def silence_in_words(ranks: Sequence[int]) -> str:
    """That some ranks do not answer."""
    verbs = 'does not answer, it is' if len(ranks) == 1 else 'do not answer, they are'
    return f'{_ranks(ranks)} {verbs} stopped or gone'


def _ranks(ranks: Sequence[int]) -> str:
    return f'rank{"s" * (len(ranks) > 1)} {", ".join(map(str, ranks))}'
