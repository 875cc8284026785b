"""The scripts of ``tools`` as jobs of their own, and the processes that they leave."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import wait_for_steps


def launch(script, config, *options, train=False, before=(), **environment):
    """Start a script in a session of its own; with ``train`` wait until it trains.

    ``before`` is a command that runs the script, such as one that enters a network.
    """
    work = config.with_name('work')
    script = ROOT / 'tools' / script
    interpreter = [sys.executable] if script.suffix == '.py' else []
    command = [*before, *interpreter, script, config, *options, '--work-dir', work]
    env = {**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': str(ROOT), **environment}
    with open(f'{work}.log', 'a') as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
    if train:  # the imports of the scripts take their time
        wait_for_steps(work, seconds=200, alive=lambda: job.poll() is None)
    return job


def processes(session):
    """Ids of all processes of a session, by what /proc says."""
    found = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            after_name = stat.read_text().rpartition(')')[2].split()
        except OSError:
            continue
        if int(after_name[3]) == session and after_name[0] != 'Z':
            found.append(int(stat.parent.name))
    return found


def assert_no_orphans(job, seconds=10):
    """Data-loader workers look for their parent every few seconds."""
    deadline = time.monotonic() + seconds
    while left := processes(job.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
