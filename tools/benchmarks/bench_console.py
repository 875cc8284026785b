"""What the live display costs: its share of an iteration, on a real pseudo-terminal.

    python tools/benchmarks/bench_console.py [--iterations 50] [--milliseconds 5 20 100]

Feeds the display of a long run (a million logged losses) from a loop whose iterations take a given
time, as a process that draws into a pseudo-terminal, and takes the CPU time of every call of the
hook. CPU time, so that other work on the machine does not count.
Exits with 1 if the share is above 0.5 %.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from mmengine.logging import HistoryBuffer, MessageHub
from rich.console import Console

from tools.figures import markdown
from ttl_mm.console import Screen
from ttl_mm.engine.hooks.console_hook import ConsoleHook

LIMIT = 0.005
LOGGED = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--iterations', type=int, default=50)
    parser.add_argument('--milliseconds', type=float, nargs='+', default=[5, 20, 100])
    args = parser.parse_args()
    rows, worst = [], 0.0
    for milliseconds in args.milliseconds:
        share, drawn, each = measure(milliseconds / 1000, args.iterations)
        worst = max(worst, share)
        rows.append([f'{milliseconds:.0f} ms', drawn, f'{1000 * each:.1f} ms', f'{share:.3%}'])
    print(markdown(['an iteration', 'drawings', 'one of them', 'share of the time'], rows))
    return int(worst > LIMIT)


def measure(seconds: float, iterations: int) -> tuple[float, int, float]:
    """Share of the time, number of drawings, seconds of one."""
    master, slave = os.openpty()
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    os.environ.update(TERM='xterm-256color', COLUMNS='100', LINES='40')
    hook, runner = ConsoleHook(), fake_runner()
    with os.fdopen(slave, 'w') as terminal:
        hook.screen = Screen(Console(file=terminal, force_terminal=True))
        hook._began, hook._first, hook._interval = time.monotonic(), 0, 50
        spent, drawings = 0.0, []
        began = time.thread_time()
        for _ in range(2):  # the first drawing imports parts of rich
            hook.screen.refresh(lambda: hook._status(runner, 1))
        hook.screen._next = 0.0
        # long enough for a few drawings, whatever the length of an iteration
        while runner.iter < iterations or time.thread_time() - began < 5:
            work_until = time.thread_time() + seconds
            while time.thread_time() < work_until:
                sum(range(1000))
            due = hook.screen.is_due
            start = time.thread_time()
            hook.after_train_iter(runner, runner.iter)
            took = time.thread_time() - start
            spent += took
            drawings += [took] if due else []
            runner.iter += 1
        whole = time.thread_time() - began
        hook.close()
    return spent / whole, len(drawings), float(np.median(drawings))


def fake_runner() -> SimpleNamespace:
    """What the hook reads of a runner, after a million iterations."""
    hub = MessageHub.get_instance(f'bench_console_{time.time()}')
    losses = np.linspace(3, -1, LOGGED)
    hub.log_scalars['train/loss'] = HistoryBuffer(losses, np.ones(LOGGED), max_length=LOGGED)
    hub.update_scalar('train/images_per_s', 300.0)
    hub.update_scalar('train/rank', 23.4)
    hub.update_scalar('probe/knn_top1', 45.2)
    hub.update_info('health', 'healthy')
    hub.update_info('newest_checkpoint', 'epoch_2.pth')
    loop = SimpleNamespace(counts_epochs=True)
    return SimpleNamespace(
        message_hub=hub, train_loop=loop, iter=0, max_iters=2_000_000, epoch=2, max_epochs=200
    )


def drain(master: int) -> None:
    with contextlib.suppress(OSError):  # the other end is closed
        while os.read(master, 65536):
            pass


if __name__ == '__main__':
    sys.exit(main())
