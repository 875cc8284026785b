"""A run is forecast from its log alone."""

import json
import shutil

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.report.forecasting import forecast_run
from ttl_mm.report.logs import load_run

RUN = ROOT / 'projects/efficiency_study/results/methods/simclr-seed1'


@pytest.fixture
def first_part(tmp_path):
    """The first 400 of 960 steps of a published run."""
    shutil.copytree(RUN, tmp_path / 'run')
    log = tmp_path / 'run' / 'vis_data' / 'scalars.json'
    lines = [line for line in log.read_text().splitlines() if json.loads(line)['iter'] <= 400]
    log.write_text('\n'.join(lines) + '\n')
    return tmp_path / 'run'


def test_the_published_end_lies_in_the_interval(first_part):
    found, hours = forecast_run(load_run(first_part), steps=960)
    end = found.ends[1.0]
    outcome = load_run(RUN).series('probe/knn_top1')[1][-1]
    assert found.seen == pytest.approx(0.4)
    assert end.low < outcome < end.high
    assert hours[1.0] == pytest.approx(load_run(first_part).hours(384) / 0.4)
    assert hours[2.0] == pytest.approx(2 * hours[1.0])


def test_a_run_without_labels_is_forecast_by_the_measure(first_part, capsys):
    log = first_part / 'vis_data' / 'scalars.json'
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if 'probe/knn_top1' in line:
            line['judge/view_invariance'] = line.pop('probe/knn_top1') / 400
    log.write_text('\n'.join(map(json.dumps, lines)))
    assert not main(['forecast', str(first_part), '--steps', '960'])
    assert 'neighbors kept under views now: ' in capsys.readouterr().out


def test_the_command_prints_all_lengths_and_a_verdict(first_part, capsys):
    assert not main(['forecast', str(first_part), '--steps', '960'])
    printed = capsys.readouterr().out
    assert all(word in printed for word in ('half', 'this', 'twice', 'on track', 'usual'))


def test_what_is_missing_is_named(first_part):
    run = load_run(first_part)
    for steps, message in ((None, '--steps'), (100_000, 'up to 0%'), (100, '--steps 100')):
        with pytest.raises(UserError, match=message):
            forecast_run(run, steps)
