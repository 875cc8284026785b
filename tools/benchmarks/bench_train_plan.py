"""Time and memory of ``ttl train``, planned and measured: ``FOLDER [--hours H --size PX]``.

Three networks at two sizes, on images of FOLDER. Each run is planned as ``ttl train`` does it, then
its config is trained for 15 steps, and the same hook that measured the trial measures the run.
Where other programs use the machine, the clock tells more about them than about the plan: CPU time
of a step is the steadier comparison. With ``--hours`` the whole command is timed instead. Set
OMP_NUM_THREADS to the threads of a process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.planning.request import Request
from ttl_mm.pretraining.plan import Planner

ROOT = Path(__file__).resolve().parents[2]
NETWORKS, SIZES, STEPS = ('resnet18', 'resnet34', 'resnet50'), (64, 96), 15


def measure(config, steps: int, folder: Path) -> dict:
    """Train so many steps in a process of its own; what they cost."""
    out = folder / 'measured.json'
    config.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': steps}
    config.default_hooks.checkpoint = {'type': 'ttl_mm.CheckpointHook', 'save_last': False}
    hook = {'type': 'ttl_mm.TrialHook', 'out': str(out), 'started': time.time(), 'seconds': 1e9}
    config.default_hooks.trial = hook
    config.dump(folder / 'run.py')
    log = folder / 'log.txt'
    if train_in_processes(folder / 'run.py', folder / 'run', log=log):
        sys.exit(log.read_text()[-2000:])
    return json.loads(out.read_text())


def compare(folder: str, backbone: str, size: int) -> str:
    """A row of the table: planned, measured, and the ratio of both."""
    request = Request((folder,), backbone, size, epochs=1)
    planner = Planner(request, time.monotonic(), lambda text: None)
    plan = replace(planner.make(), steps=STEPS)
    with tempfile.TemporaryDirectory() as name:
        found = measure(planner.config(plan, Path(name)), STEPS, Path(name))
    time_planned = plan.seconds() - plan.closing()
    pairs = [
        (time_planned, found['start_up'] + sum(found['steps']) + found['save']),
        (plan.trial.cpu, sum(found['cpu'][2:]) / (STEPS - 2)),
        (plan.trial.memory / 2**30, found['memory'] / 2**30),
    ]
    cells = [f'{a:.3g} / {b:.3g} ({a / b:.2f})' for a, b in pairs]
    return f'| {" | ".join([backbone, str(size), *cells])} |'


def time_command(folder: str, hours: float, size: int) -> None:
    """The whole command, from its start to its end, against the hours it was given."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, '-m', 'ttl_mm', 'train', folder, '--hours', str(hours)]
        command += ['--size', str(size)]
        environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
        begun = time.monotonic()
        job = [*command, '--out', f'{out}/run']
        ended = subprocess.run(job, env=environment, capture_output=True, text=True)
        seconds = time.monotonic() - begun
    plan = [line for line in ended.stdout.splitlines() if line.startswith(('  ', '!'))]
    print(*plan, sep='\n')
    ratio = seconds / (3600 * hours)
    print(ended.stderr[-300:] if ended.returncode else '', f'load {os.getloadavg()[0]:.1f}')
    print(f'exit {ended.returncode}; {seconds:.0f} s of {3600 * hours:.0f} s: {ratio:.3f}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder')
    parser.add_argument('--hours', type=float)
    parser.add_argument('--size', type=int, default=64, help='of the views, with --hours')
    parser.add_argument('--networks', nargs='+', default=NETWORKS, help='without --hours')
    parser.add_argument('--sizes', nargs='+', type=int, default=SIZES, help='without --hours')
    args = parser.parse_args()
    if args.hours is not None:
        return time_command(args.folder, args.hours, args.size)
    print('| network | size | seconds of the run | CPU seconds of a step | memory, GiB |')
    print('|---|---|---|---|---|')
    for backbone in args.networks:
        for size in args.sizes:
            print(compare(args.folder, backbone, size), flush=True)


if __name__ == '__main__':
    main()
