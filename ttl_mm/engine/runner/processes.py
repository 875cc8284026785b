"""Train in processes of their own: one, or several under torchrun.

``python -m ttl_mm.engine.runner.processes CONFIG WORK_DIR [RANKS]`` is one of them. It does
what ``tools/train.py CONFIG --resume`` does, and needs no checkout of this project. A module that
was given in Python goes along to processes that Python starts (:mod:`multiprocessing`).
"""

import multiprocessing
import os
import pickle
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from ttl_mm.compat.torch_environment import set_torch_environment
from ttl_mm.engine.guards.preemption import CONTINUES, continuing_command, of_ttl
from ttl_mm.engine.hooks.time_limit_hook import STARTED
from ttl_mm.engine.runner.launch import default_work_dir, exit_code, train
from ttl_mm.errors import UserError
from ttl_mm.files.regular import read_system, read_text
from ttl_mm.models.libraries import give_module

MODULE = 'ttl_mm.engine.runner.processes'
#: of a checkout; a wheel has no tools
TRAINER = Path(__file__).resolve().parents[3] / 'tools' / 'train.py'
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
#: how Python starts a process: a fork could neither use a GPU nor threads that compute already
METHOD = 'spawn'
Given = tuple[nn.Module, int | None]  # a module, and an edge of images that it takes


class RunEndedError(UserError):
    """Training in a folder ended before its time; ``exit_code`` is as in docs/training.md."""

    def __init__(self, folder: Path, code: int) -> None:
        super().__init__(f'{folder} is not finished. The same line continues it.')
        self.exit_code = code if code > 0 else 128 - code  # of a signal, as a shell counts it


def train_in_processes(
    config: Path,
    work_dir: Path,
    ranks: int = 1,
    log: Path | None = None,
    given: Given | None = None,
) -> int:
    """Train, or continue, and return the exit code (docs/training.md lists them).

    A signal to this process, such as that of Ctrl-C, goes to the ranks, which save and end.

    Args:
        config: A config.
        work_dir: Where it saves; continued if it has checkpoints.
        ranks: Processes, one per GPU where there are GPUs.
        log: A file for all that they print; the terminal by default.
        given: A module that the config names, as :func:`give_module` takes it.
    """
    with tempfile.TemporaryDirectory() as folder:
        code_file = Path(folder) / 'code'  # torchrun itself knows only success and failure
        environment = {
            **os.environ, 'TTL_EXIT_FILE': str(code_file), STARTED: str(time.time()),
            CONTINUES: continuing_line(sys.argv),
        }  # fmt: skip
        if ranks > 1:
            threads = max(1, (os.cpu_count() or 1) // ranks)
            environment.setdefault('OMP_NUM_THREADS', str(threads))
        set_torch_environment(environment)
        package = str(Path(__file__).parents[3])  # where ttl_mm lies
        paths = [package, *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
        environment['PYTHONPATH'] = os.pathsep.join(filter(None, paths))
        if given is None:
            code = start(config, work_dir, ranks, log, environment)
        else:
            code = start_with_module(given, config, work_dir, ranks, log, environment)
        if code and code_file.is_file():
            code = int(read_text(code_file).split()[0])
        return code  # negative: a signal


def continuing_line(arguments: Sequence[str]) -> str:
    """What continues the run: the line of ``ttl train``, or the same call from Python.

    >>> continuing_line(['/usr/bin/ttl', 'train', 'my photos'])
    "ttl train 'my photos'"
    """
    return continuing_command(arguments) if of_ttl(arguments[0]) else 'the same call again'


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
    with _passing_signals_on([process.pid], several=ranks > 1):
        return process.wait()


def check_given(module: nn.Module) -> None:
    """Refuse a module that no other process can have, before anything is planned.

    Raises:
        UserError: It cannot be pickled; or this is such a process, which runs the script again.
    """
    name = type(module).__name__
    script = sys.modules['__main__']
    # multiprocessing calls the script __mp_main__ in its children; elsewhere that is an alias
    if sys.modules.get('__mp_main__', script) is not script:
        raise UserError(
            f'backbone={name}(...): training runs in processes that import this script. Put the '
            "call of pretrain below `if __name__ == '__main__':`."
        )
    try:
        pickle.dumps(module)
    except Exception as error:  # each object refuses in its own way
        raise UserError(
            f'backbone={name}(...) cannot be sent to the processes that train it ({error}): define '
            'its class and functions at the top level of a Python file, and import them.'
        ) from None
    if type(module).__module__ == '__main__' and not hasattr(script, '__file__'):
        raise UserError(
            f'backbone={name}(...): its class was typed into a notebook or a console, where the '
            'processes that train it cannot find it. Define it in a Python file, and import it.'
        )


def start_with_module(
    given: Given,
    config: Path,
    work_dir: Path,
    ranks: int,
    log: Path | None,
    environment: dict[str, str],
) -> int:
    """As :func:`start`, in processes that get a module from this one; a code of those that fail."""
    context: Any = multiprocessing.get_context(METHOD)
    place = {'WORLD_SIZE': ranks, 'LOCAL_WORLD_SIZE': ranks, 'MASTER_PORT': _free_port()}
    processes = []
    before = dict(os.environ)
    try:
        os.environ.update(environment)  # a process takes over what is set when it starts
        for rank in range(ranks):
            if ranks > 1:
                here = {**place, 'RANK': rank, 'LOCAL_RANK': rank, 'MASTER_ADDR': '127.0.0.1'}
                os.environ.update({name: str(value) for name, value in here.items()})
            arguments = (given, str(config), str(work_dir), str(ranks), log)
            processes.append(context.Process(target=_be_rank, args=arguments))
            processes[-1].start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    with _passing_signals_on([process.pid or 0 for process in processes]):
        for process in processes:
            process.join()
    return next((process.exitcode for process in processes if process.exitcode), 0)


def _be_rank(given: Given, config: str, work_dir: str, ranks: str, log: Path | None) -> None:
    """What a process does that was started with a module."""
    os.setsid()  # so that Ctrl-C reaches the ranks once, through the process that started them
    if log is not None:
        with open(log, 'a') as file:
            for stream in (1, 2):  # stdout and stderr
                os.dup2(file.fileno(), stream)
    give_module(*given)
    sys.exit(main(config, work_dir, ranks))


def _free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


@contextmanager
def _passing_signals_on(pids: Sequence[int], several: bool = False) -> Iterator[None]:
    """Send signals to processes, or to the children of the first if there are several below it.

    Torchrun itself would grant its ranks only 30 s to save.
    """

    def pass_on(number: int, frame) -> None:
        for pid in _children(pids[0]) if several else pids:
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


def start_line(config: Path, ranks: int = 1) -> str:
    """The line that trains by a config: a script of the checkout, or this module of a wheel."""
    if not TRAINER.is_file():
        work_dir = default_work_dir(str(config))
        words = ['python', '-m', MODULE, config, work_dir, *([ranks] if ranks > 1 else [])]
    elif ranks > 1:
        words = ['tools/dist_train.sh', config, ranks]
    else:
        words = ['python', 'tools/train.py', config]
    return shlex.join(map(str, words))


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
