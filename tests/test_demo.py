"""The demo's way, shortened: a config, tools/train.py, the report."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

CONFIG = 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'


def run(*command):
    result = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope='module')
def work_dir(tmp_path_factory):
    """Five of the forty epochs, with the probe before and after."""
    folder = tmp_path_factory.mktemp('demo')
    options = ['train_cfg.max_epochs=5', 'default_hooks.probe.interval=40']
    run('tools/train.py', CONFIG, '--work-dir', folder, '--cfg-options', *options)
    return folder


def test_training_without_labels_beats_the_untrained_network_by_15_points(work_dir):
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    records = [json.loads(line) for line in log.read_text().splitlines()]
    accuracy = [record['probe/knn_top1'] for record in records if 'probe/knn_top1' in record]
    assert len(accuracy) == 2
    assert accuracy[1] - accuracy[0] >= 15, accuracy


def test_report_shows_the_bar_to_beat_and_prints_its_path_last(work_dir, tmp_path):
    page = Path(
        run('-m', 'ttl_mm', 'report', work_dir, '--neighbors', '--out', tmp_path).split('\n')[-2]
    )
    text = page.read_text()
    assert 'raw pixels' in text
    assert f'of the run {work_dir.name}' in text
    assert 'untrained' in text
    assert (tmp_path / 'neighbors.png').stat().st_size > 10_000
