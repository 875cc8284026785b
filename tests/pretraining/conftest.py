import pytest

from tests.helpers.forked_training import start
from ttl_mm.engine.runner import processes
from ttl_mm.planning import trial


@pytest.fixture(scope='module')
def forked():
    """Runs and trials are forks; still processes of their own, which train by the real launcher."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'start', start)
        patch.setattr(processes, 'METHOD', 'fork')
        patch.setattr(trial, 'SECONDS', 0.0)  # the fewest steps
        yield patch
