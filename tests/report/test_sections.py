import pytest

from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report import load_run
from ttl_mm.report.sections import common_goal, summary_section, time_to_target


@pytest.fixture
def two_runs(tmp_path):
    fast = write_start(tmp_path / 'fast', '1', 1, 4 * EPOCH, accuracy=lambda i: min(90, 2.0 * i))
    slow = write_start(tmp_path / 'slow', '1', 1, 4 * EPOCH, accuracy=lambda i: 1.0 * i)
    return [load_run(fast), load_run(slow)]


def test_time_to_a_target_counts_from_the_first_measurement_that_reached_it(two_runs):
    table = time_to_target(two_runs, 'probe/knn_top1', 70)
    assert [row[:3] for row in table.rows] == [['fast', '2', '320'], ['slow', '4', '640']]


def test_a_target_that_was_missed_says_so(two_runs):
    table = time_to_target(two_runs, 'probe/knn_top1', 85)
    assert [row[1] for row in table.rows] == ['3', 'not reached']


def test_an_untrained_network_reaches_no_target(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 2 * EPOCH)
    log = folder / '1' / 'vis_data' / 'scalars.json'
    log.write_text('{"probe/knn_top1": 99.0, "iter": 0, "epoch": 0, "step": 0}\n' + log.read_text())
    runs = [load_run(folder)]
    assert common_goal(runs, 'probe/knn_top1') == 40
    assert time_to_target(runs, 'probe/knn_top1', 40).rows[0][1] == '2'
    assert summary_section(runs).tables[0].rows[0][-1] == '99.0 → 40.0 (99.0, 0)'
