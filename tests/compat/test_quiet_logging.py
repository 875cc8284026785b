import logging
import uuid

import pytest
from mmengine.logging import MMLogger
from mmengine.model import BaseModule
from torch import nn

from ttl_mm.compat.quiet_logging import quiet_outside_runs


@pytest.fixture
def logger(monkeypatch):
    """Makes a logger of mmengine the current one; those of other tests come back afterwards."""
    monkeypatch.setattr(MMLogger, '_instance_dict', dict(MMLogger._instance_dict))

    made = []

    def make(**options):
        made.append(MMLogger.get_instance(uuid.uuid4().hex, **options))
        return made[-1]

    yield make
    for handler in [handler for current in made for handler in current.handlers]:
        handler.close()


class Model(BaseModule):
    def __init__(self):
        super().__init__(init_cfg={'type': 'Normal', 'layer': 'Linear', 'std': 1.0})
        self.layer = nn.Linear(2, 2)


def test_init_weights_prints_nothing_and_warnings_remain(logger, capsys):
    current = logger()
    with quiet_outside_runs():
        Model().init_weights()
        current.warning('this one is needed')
    out = ''.join(capsys.readouterr())
    assert out.count('\n') == 1
    assert 'this one is needed' in out
    assert current.level == logging.NOTSET
    Model().init_weights()
    assert 'layer.weight' in ''.join(capsys.readouterr())


def test_a_run_keeps_all_in_its_log_file(logger, tmp_path):
    logger(log_file=tmp_path / 'run.log')
    with quiet_outside_runs():
        Model().init_weights()
    assert 'layer.weight' in (tmp_path / 'run.log').read_text()


def test_the_level_comes_back_after_an_error(logger):
    current = logger()
    current.setLevel(logging.INFO)
    with pytest.raises(ZeroDivisionError), quiet_outside_runs():
        raise ZeroDivisionError
    assert current.level == logging.INFO
