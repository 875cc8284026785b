import os
import sys
import warnings

import pytest

from ttl_mm.engine.runner import processes
from ttl_mm.planning import trial


def fork(config, work_dir, ranks, log, environment) -> int:
    """As ``processes.start``, but a fork of this warm process in place of a new interpreter."""
    sys.stdout.flush()
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 99
    try:
        warnings.simplefilter('default')  # a run like any user's; pytest makes errors of them
        file = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ.update(environment)
        code = processes.main(str(config), str(work_dir))
    finally:
        os._exit(code)


@pytest.fixture(scope='module')
def forked():
    """Runs and trials are forks; still processes of their own, which train by the real launcher."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'start', fork)
        patch.setattr(processes, 'METHOD', 'fork')
        patch.setattr(trial, 'SECONDS', 0.0)  # the fewest steps
        yield patch
