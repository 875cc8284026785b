import pytest

from tests.helpers.forked_training import start
from ttl_mm.engine.runner import processes


@pytest.fixture(scope='module')
def forked():
    """Runs are forks of this warm process; they train by the real launcher."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'start', start)
        yield patch
