import json
import os
import time

import numpy as np
import pytest

from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.errors import UserError
from ttl_mm.report import write_report
from ttl_mm.report.logs import load_inputs, load_run


@pytest.fixture
def finished(tmp_path):
    return write_start(tmp_path / 'run', '20260101_000000', 1, 4 * EPOCH)


@pytest.mark.parametrize(('gpu', 'units'), [(True, 3), (False, 3 * 4)])
def test_a_run_knows_its_epochs_images_and_hours_of_gpus_or_cores(tmp_path, gpu, units):
    folder = write_start(tmp_path / 'run', '1', 1, 4 * EPOCH, devices=3, gpu=gpu)
    with open(folder / '1' / 'vis_data' / 'scalars.json', 'a') as log:
        log.write('{"threads": 4, "step": 80}\n')
    run = load_run(folder)
    end = np.array([float(run.last_iteration)])
    assert run.epochs(end) == 4
    assert run.images(end) == 80 * 8 * 3
    assert run.hours(end) == pytest.approx(80 * 0.5 / 3600)
    assert run.cost(end) == pytest.approx(units * 80 * 0.5 / 3600)


def test_the_length_of_an_epoch_follows_from_sparse_lines(finished):
    for interval, length in ((10, 17), (7, 23), (4, 4), (50, 64)):
        run = load_run(finished)
        run.training = [
            {'epoch': epoch, 'iter': (epoch - 1) * length + inner}
            for epoch in range(1, 60)
            for inner in range(interval, length + 1, interval)
        ]
        assert run.iterations_per_epoch == length


def test_of_overlapping_starts_the_later_wins(tmp_path):
    write_start(tmp_path / 'run', '20260101_000000', 1, 55, loss=lambda _: 1.0)
    run = load_run(write_start(tmp_path / 'run', '20260102_000000', 41, 80, loss=lambda _: 2.0))
    iterations, losses = run.series('loss')
    assert iterations.tolist() == list(range(5, 81, 5))
    assert losses.tolist() == [1.0] * 8 + [2.0] * 8
    iterations, accuracies = run.series('probe/knn_top1')  # each of the iteration before it
    assert iterations.tolist() == accuracies.tolist() == [20, 40, 60, 80]
    assert run.status == 'finished, resumed 1×'


def test_a_start_that_did_not_train_is_no_start(finished):
    before = load_run(finished)
    data = finished / '20260109_000000' / 'vis_data'
    data.mkdir(parents=True)
    for lines in ('', '{"coco/bbox_mAP": 0.3, "step": 0}\n'):
        (data / 'scalars.json').write_text(lines)
        assert load_run(finished) == before


def test_a_fresh_log_is_running_and_an_old_one_stopped(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 30)
    assert load_run(folder).status == 'running'
    an_hour_ago = time.time() - 3600
    os.utime(folder / '1' / 'vis_data' / 'scalars.json', (an_hour_ago, an_hour_ago))
    assert load_run(folder).status == 'stopped'


def test_a_half_written_last_line_is_left_out_and_a_damaged_one_named(finished):
    log = finished / '20260101_000000' / 'vis_data' / 'scalars.json'
    before, lines = load_run(finished).records, log.read_text()
    log.write_text(lines + '{"loss": 0.')
    assert load_run(finished).records == before
    log.write_text('garbage\n' + lines)
    with pytest.raises(UserError, match=r"line 1 of .*'garbage'"):
        load_run(finished)


def test_nan_is_counted_and_left_out_of_curves(tmp_path):
    loss = {5: 1.0, 10: float('nan'), 15: 1.0, 20: 1.0}.get
    run = load_run(write_start(tmp_path / 'run', '1', 1, 20, loss=loss))
    assert run.non_finite('loss') == [10]
    assert run.series('loss')[0].tolist() == [5, 15, 20]


def test_runs_of_one_name_get_their_parents_and_a_run_given_twice_is_one(tmp_path):
    folders = [tmp_path / 'a' / 'run', tmp_path / 'b' / 'run', tmp_path / 'b' / 'other']
    for folder in folders:
        write_start(folder, '1', 1, 20)
    runs, _ = load_inputs([*folders, tmp_path / 'a' / '..' / 'a' / 'run'])
    assert [run.name for run in runs] == ['a/run', 'b/run', 'other']


def test_a_dumped_config_is_read_without_being_executed(finished, tmp_path):
    config = finished / '20260101_000000' / 'vis_data' / 'config.py'
    canary = tmp_path / 'canary'
    config.write_text(f'open({str(canary)!r}, "w")\ntrain_dataloader = dict(batch_size=5)\n')
    assert load_run(finished).images(1) == 5
    assert not canary.exists()


def test_a_start_after_the_clock_was_set_back_is_kept_in_its_place(tmp_path):
    write_start(tmp_path, '20240101_000000', 1, 40, loss=lambda i: 1.0)
    write_start(tmp_path, '20230101_000000', 21, 60, loss=lambda i: 2.0)  # resumed from the first
    run = load_run(tmp_path)
    assert (run.last_iteration, run.starts) == (60, 2)
    assert [r['loss'] for r in run.training] == [1.0] * 4 + [2.0] * 8


@pytest.mark.parametrize(
    'line',
    [
        '{"iter": "3"}', '{"iter": -1}', '{"iter": NaN}', '{"iter": 1e999}', '{"iter": null}',
        '{"iter": true}', '{"iter": 1, "epoch": "x"}', '{"iter": 1' + '0' * 400 + '}', '[1]',
        '{"iter": 1, "threads": [1]}', '{"iter": ' + '[' * 5000,
    ],
)  # fmt: skip
def test_counters_that_are_no_numbers_are_named(finished, line):
    (log,) = finished.glob('*/vis_data/scalars.json')
    log.write_text(line + '\n' + log.read_text())
    with pytest.raises(UserError, match=r'line 1 of .*scalars\.json is no line of a log'):
        load_run(finished)


def test_odd_values_and_dollar_signs_in_names_still_give_a_page(tmp_path):
    folder = tmp_path / 'cost $5 and $x^{'
    write_start(folder, '20240101_000000', 1, 40)
    (log,) = folder.glob('*/vis_data/scalars.json')
    odd = {'iter': 40, 'lr': 'text', 'loss': None, 'time': 10**18, 'probe/knn_top1': [1]}
    log.write_text(log.read_text() + json.dumps(odd) + '\n')
    config = log.with_name('config.py')
    config.write_bytes(b'# \xff\nx = ' + b'(' * 100_000)
    assert write_report([folder], tmp_path / 'out').is_file()
