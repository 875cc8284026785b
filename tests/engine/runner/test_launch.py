"""From the command line to a run: precision, trackers, progress, exit codes."""

import json
from unittest.mock import Mock

import pytest
from mmengine.config import Config
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import log_file
from ttl_mm.engine.runner import launch
from ttl_mm.engine.state import exit_codes
from ttl_mm.errors import UserError

LOGGED = """
backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(type='Visualizer', vis_backends=backends)
log_level = 'INFO'
"""


def test_progress_in_log_and_tensorboard(tmp_path, toy):
    assert toy(accumulation=2, more=LOGGED) == [0]
    line = next(x for x in log_file(tmp_path / 'work').read_text().splitlines() if '[2][3/5]' in x)
    assert all(word in line for word in ('lr:', 'eta:', 'loss:', 'images_per_s:', 'data_wait:'))
    (scalars,) = tmp_path.glob('work/*/vis_data/scalars.json')
    record = json.loads(scalars.read_text().splitlines()[0])
    assert record['images_per_s'] == pytest.approx(4 / record['time'])
    assert record['data_wait'] == pytest.approx(record['data_time'] / record['time'])
    events = EventAccumulator(str(scalars.parent)).Reload()
    assert [event.step for event in events.Scalars('loss')] == list(range(1, 21))


def test_mixed_precision_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(launch.torch.cuda, 'is_available', lambda: False)
    recipe = Config.fromfile(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    launch._choose_precision(recipe, amp=False)
    assert recipe.optim_wrapper.type == 'OptimWrapper'
    assert 'loss_scale' not in recipe.optim_wrapper
    with pytest.raises(UserError, match='--amp needs a GPU'):
        launch._choose_precision(recipe, amp=True)
    monkeypatch.setattr(launch.torch.cuda, 'is_available', lambda: True)
    cfg = Config({'optim_wrapper': {'type': 'OptimWrapper'}})
    launch._choose_precision(cfg, amp=True)
    assert cfg.optim_wrapper == {'type': 'AmpOptimWrapper', 'loss_scale': 'dynamic'}


def test_a_tracker_is_one_option(monkeypatch):
    cfg = Config.fromfile(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    with pytest.raises(UserError, match='pip install wandb'):
        launch._add_tracker(cfg, 'wandb')
    monkeypatch.setitem(launch.sys.modules, 'wandb', object())
    launch._add_tracker(cfg, 'wandb')
    kinds = [backend['type'] for backend in cfg.visualizer.vis_backends]
    assert kinds == ['LocalVisBackend', 'TensorboardVisBackend', 'WandbVisBackend']


def test_every_end_has_its_code_and_the_launcher_learns_the_first(tmp_path, monkeypatch, capsys):
    told = tmp_path / 'code'
    monkeypatch.setenv('TTL_EXIT_FILE', str(told))
    assert launch.exit_code(lambda: None) == 0
    for error, code in [
        (UserError('change it'), 2),
        (exit_codes.TrainingStopped('stopped'), 3),
        (exit_codes.Preempted('saved'), 75),
        (ValueError('unforeseen'), 1),
    ]:
        told.write_text('')
        assert launch.exit_code(Mock(side_effect=error)) == code
        assert launch.exit_code(lambda: 1 / 0) == 1
        assert told.read_text() == str(code)
        assert str(error) in capsys.readouterr().err
