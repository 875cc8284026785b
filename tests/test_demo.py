"""The demo's way, shortened: a config, tools/train.py, the report."""

import json
import subprocess
import sys
from pathlib import Path

from tests.helpers.paths import ROOT

CONFIG = 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'


def run(*command):
    result = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def test_five_epochs_gain_15_points_and_the_report_shows_the_bar_to_beat(tmp_path):
    work_dir, out = tmp_path / 'run', tmp_path / 'report'
    options = ['train_cfg.max_epochs=5', 'default_hooks.probe.interval=40']
    run('tools/train.py', CONFIG, '--work-dir', work_dir, '--cfg-options', *options)
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    records = [json.loads(line) for line in log.read_text().splitlines()]
    accuracy = [record['probe/knn_top1'] for record in records if 'probe/knn_top1' in record]
    assert len(accuracy) == 2
    assert accuracy[1] - accuracy[0] >= 15, accuracy
    printed = run('-m', 'ttl_mm', 'report', work_dir, '--neighbors', '--out', out)
    text = Path(printed.split('\n')[-2]).read_text()  # the path of the page comes last
    for words in ('raw pixels', f'of the run {work_dir.name}', 'untrained'):
        assert words in text
    assert (out / 'neighbors.png').stat().st_size > 10_000
