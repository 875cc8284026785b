"""The demo's way, shortened: a config, tools/train.py, the report."""

import json
import sys
from pathlib import Path
from runpy import run_path

from tests.helpers.forked import in_fork
from tests.helpers.paths import ROOT
from ttl_mm.cli import main

CONFIG = ROOT / 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'


def train_script(*arguments) -> None:
    """What ``python tools/train.py ARGUMENTS`` runs."""
    sys.argv = ['tools/train.py', *map(str, arguments)]
    run_path(str(ROOT / sys.argv[0]), run_name='__main__')


def run(job, folder):
    """Do ``job`` in a fork, which has all packages; what it printed."""
    ended = in_fork(job, folder, seconds=600)
    assert ended.code == 0, ended.out[-3000:] + ended.err[-3000:]
    return ended.out


def test_five_epochs_gain_15_points_and_the_report_shows_the_bar_to_beat(tmp_path):
    work_dir, out, folder = tmp_path / 'run', tmp_path / 'report', tmp_path / 'folder'
    folder.mkdir()
    options = ['train_cfg.max_epochs=5']
    options += ['default_hooks.probe.interval=40', 'default_hooks.probe.linear=False']
    run(lambda: train_script(CONFIG, '--work-dir', work_dir, '--cfg-options', *options), folder)
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    records = [json.loads(line) for line in log.read_text().splitlines()]
    accuracy = [record['probe/knn_top1'] for record in records if 'probe/knn_top1' in record]
    assert len(accuracy) == 2
    assert accuracy[1] - accuracy[0] >= 15, accuracy
    printed = run(lambda: main(['report', str(work_dir), '--neighbors', '--out', str(out)]), folder)
    text = Path(printed.split('\n')[-2]).read_text()  # the path of the page comes last
    for words in ('raw pixels', f'of the run {work_dir.name}', 'untrained'):
        assert words in text
    assert (out / 'neighbors.png').stat().st_size > 10_000
