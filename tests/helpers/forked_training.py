"""Training by the real launcher in forks of this warm process."""

import os
import warnings

from tests.helpers.forked import fork, wait
from tests.helpers.loggers import forget_loggers
from ttl_mm.engine.runner import processes


def start(config, work_dir, ranks, log, environment) -> int:
    """As ``processes.start``, but a fork of this warm process in place of a new interpreter."""

    def train() -> int:
        warnings.simplefilter('default')  # a run like any user's; pytest makes errors of them
        forget_loggers()
        file = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ.update(environment)
        return processes.main(str(config), str(work_dir))

    return wait([fork(train)])[0]
