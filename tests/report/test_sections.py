from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report import load_run
from ttl_mm.report.sections import common_goal, summary_section, time_to_target


def test_time_to_a_target_counts_from_the_first_measurement_that_reached_it(tmp_path):
    accuracies = {'fast': lambda i: min(90, 2.0 * i), 'slow': lambda i: 1.0 * i}
    runs = [
        load_run(write_start(tmp_path / name, '1', 1, 4 * EPOCH, accuracy=accuracy))
        for name, accuracy in accuracies.items()
    ]
    for target, expected in {
        70: [['fast', '2', '320'], ['slow', '4', '640']],
        85: [['fast', '3', '480'], ['slow', 'not reached', '–']],
    }.items():
        table = time_to_target(runs, 'probe/knn_top1', target)
        assert [row[:3] for row in table.rows] == expected


def test_an_untrained_network_reaches_no_target(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 2 * EPOCH)
    log = folder / '1' / 'vis_data' / 'scalars.json'
    log.write_text('{"probe/knn_top1": 99.0, "iter": 0, "epoch": 0, "step": 0}\n' + log.read_text())
    runs = [load_run(folder)]
    assert common_goal(runs, 'probe/knn_top1') == 40
    row = time_to_target(runs, 'probe/knn_top1', 40).rows[0]
    assert row[1:] == ['untrained at 99.0 already', *'–––']
    summary = summary_section(runs)
    assert summary.tables[0].rows[0][-1] == '99.0 → 40.0 (99.0, 0)'
    (warning,) = summary.warnings
    assert '40.0 %, no better than that of the untrained network, 99.0 %' in warning
