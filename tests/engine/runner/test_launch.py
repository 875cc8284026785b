"""From the command line to a run: trackers, progress, exit codes."""

import json
import re
import sys
from pathlib import Path
from shutil import rmtree
from unittest.mock import Mock

import pytest
from mmengine.config import Config
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import log_file
from ttl_mm.engine.runner import launch, processes
from ttl_mm.engine.runner.processes import start_line
from ttl_mm.engine.state import exit_codes
from ttl_mm.errors import UserError

LOGGED = """
backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(type='Visualizer', vis_backends=backends)
log_level = 'INFO'
"""


def test_progress_in_log_and_tensorboard(tmp_path, toy):
    assert toy(accumulation=2, more=LOGGED, options={'plain': True}) == [0]
    line = next(x for x in log_file(tmp_path / 'work').read_text().splitlines() if '[2][3/5]' in x)
    assert all(word in line for word in ('lr:', 'eta:', 'loss:', 'images_per_s:', 'data_wait:'))
    (scalars,) = tmp_path.glob('work/*/vis_data/scalars.json')
    record = json.loads(scalars.read_text().splitlines()[0])
    assert record['images_per_s'] == pytest.approx(4 / record['time'])
    assert record['data_wait'] == pytest.approx(record['data_time'] / record['time'])
    events = EventAccumulator(str(scalars.parent)).Reload()
    assert [event.step for event in events.Scalars('loss')] == list(range(1, 21))


def test_a_tracker_is_one_option(monkeypatch):
    cfg = Config.fromfile(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    with pytest.raises(UserError, match='pip install wandb'):
        launch._add_tracker(cfg, 'wandb')
    monkeypatch.setitem(sys.modules, 'wandb', object())
    launch._add_tracker(cfg, 'wandb')
    kinds = [backend['type'] for backend in cfg.visualizer.vis_backends]
    assert kinds == ['LocalVisBackend', 'TensorboardVisBackend', 'WandbVisBackend']
    choices = re.search(r'trackers = \((.*)\)', (ROOT / 'tools/train.py').read_text())[1]
    assert [name.strip("'") for name in choices.split(', ')] == list(launch.TRACKERS)


def test_every_end_has_its_code_and_the_launcher_learns_the_first(tmp_path, monkeypatch, capsys):
    code_file = tmp_path / 'folder' / 'code'
    monkeypatch.setenv('TTL_EXIT_FILE', str(code_file))
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    assert launch.exit_code(lambda: None) == 0
    assert exit_codes.written_by_first() is None
    for error, code in [
        (UserError('change it'), 2),
        (exit_codes.TrainingStopped('stopped'), 3),
        (exit_codes.Preempted('saved'), 75),
        (ValueError('unforeseen'), 1),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, 'Permission denied', 'x'), 2),
    ]:
        rmtree(code_file.parent, ignore_errors=True)  # a cleaner of temporary files came by
        assert launch.exit_code(Mock(side_effect=error)) == code
        assert launch.exit_code(lambda: 1 / 0) == 1
        assert exit_codes.written_by_first() == (code, 0)
        line = capsys.readouterr().err.splitlines()[0]
        assert (error.args[1] if code == 2 and len(error.args) > 1 else str(error)) in line


def test_workers_fit_the_cores_of_a_process(monkeypatch):
    monkeypatch.setattr('os.sched_getaffinity', lambda pid: set(range(6)), raising=False)
    monkeypatch.setenv('LOCAL_WORLD_SIZE', '2')
    assert launch.usable_cores() == 3
    monkeypatch.setenv('LOCAL_WORLD_SIZE', '8')
    assert launch.usable_cores() == 1
    cfg = Config({'train_dataloader': {'num_workers': 8}, 'val_dataloader': {'num_workers': 2}})
    launch.fit_workers(cfg, 3)
    assert cfg.train_dataloader.num_workers == 3
    assert cfg.val_dataloader.num_workers == 2


def test_the_line_that_starts_a_config_needs_no_checkout(monkeypatch):
    assert start_line(Path('my photos.py')) == "python tools/train.py 'my photos.py'"
    assert start_line(Path('a.py'), 8) == 'tools/dist_train.sh a.py 8'
    monkeypatch.setattr(processes, 'TRAINER', Path('/a/wheel/tools/train.py'))
    module = 'python -m ttl_mm.engine.runner.processes a.py work_dirs/a'
    assert start_line(Path('a.py')) == module
    assert start_line(Path('a.py'), 8) == f'{module} 8'
