"""Train in processes of their own: one, or several under torchrun.

``python -m ttl_mm.engine.runner.processes CONFIG WORK_DIR [RANKS]`` is one of them. It does
what ``tools/train.py CONFIG --resume`` does, and needs no checkout of this project.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from ttl_mm.compat.torch_environment import set_torch_environment
from ttl_mm.engine.hooks.time_limit_hook import STARTED
from ttl_mm.engine.runner.launch import exit_code, train
from ttl_mm.files.regular import read_system, read_text

MODULE = 'ttl_mm.engine.runner.processes'
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def train_in_processes(
    config: Path, work_dir: Path, ranks: int = 1, log: Path | None = None
) -> int:
    """Train, or continue, and return the exit code (docs/training.md lists them).

    A signal to this process, such as that of Ctrl-C, goes to the ranks, which save and end.

    Args:
        config: A config.
        work_dir: Where it saves; continued if it has checkpoints.
        ranks: Processes, one per GPU where there are GPUs.
        log: A file for all that they print; the terminal by default.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / 'code'  # torchrun itself knows only success and failure
        environment = {**os.environ, 'TTL_EXIT_FILE': str(told), STARTED: str(time.time())}
        if ranks > 1:
            threads = max(1, (os.cpu_count() or 1) // ranks)
            environment.setdefault('OMP_NUM_THREADS', str(threads))
        set_torch_environment(environment)
        package = str(Path(__file__).parents[3])  # where ttl_mm lies
        paths = [package, *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
        environment['PYTHONPATH'] = os.pathsep.join(filter(None, paths))
        code = start(config, work_dir, ranks, log, environment)
        if code and told.is_file():
            code = int(read_text(told).split()[0])
        return code  # negative: a signal


def start(
    config: Path, work_dir: Path, ranks: int, log: Path | None, environment: dict[str, str]
) -> int:
    """Start the processes, wait for them, and return the code of the process that was started."""
    command = [sys.executable, '-m', MODULE, str(config), str(work_dir), str(ranks)]
    with open(log or os.devnull, 'a') as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=file if log else None,
            stderr=subprocess.STDOUT if log else None,
            start_new_session=True,  # so that Ctrl-C reaches the ranks once, through us
        )
    with _passing_signals_on(process, several=ranks > 1):
        return process.wait()


@contextmanager
def _passing_signals_on(process: subprocess.Popen, several: bool) -> Iterator[None]:
    """Send signals to the ranks; torchrun itself would grant them only 30 s to save."""

    def pass_on(number: int, frame) -> None:
        for pid in _children(process.pid) if several else [process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    if threading.current_thread() is not threading.main_thread():  # which alone has handlers
        yield
        return
    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in read_system(f'/proc/{pid}/task/{pid}/children').split()]
    except OSError:  # not Linux, or gone
        return [pid]


def end_with(parent: int) -> None:
    """Save and end when the process that started this one is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def main(config: str, work_dir: str, ranks: str = '1') -> int:
    """Train or continue, here or in so many ranks below this process; returns the exit code."""
    if ranks != '1' and 'RANK' not in os.environ:
        return _run_torchrun([config, work_dir, ranks], int(ranks))
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    launcher = 'none' if ranks == '1' else 'pytorch'
    return exit_code(lambda: train(config, work_dir=work_dir, resume='auto', launcher=launcher))


def _run_torchrun(arguments: list[str], ranks: int) -> int:
    """Torchrun in this process, without its table of what failed: the ranks say that themselves."""
    os.environ.setdefault('LOGLEVEL', 'CRITICAL')  # of torchrun alone
    try:
        torchrun(['--standalone', f'--nproc_per_node={ranks}', '-m', MODULE, *arguments])
    except ChildFailedError:
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
