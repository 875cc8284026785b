import os
import time

import numpy as np
import pytest

from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.errors import UserError
from ttl_mm.report.logs import load_inputs, load_run


@pytest.fixture
def finished(tmp_path):
    return write_start(tmp_path / 'run', '20260101_000000', 1, 4 * EPOCH)


def test_a_run_knows_its_epochs_images_and_hours(tmp_path):
    run = load_run(write_start(tmp_path / 'run', '1', 1, 4 * EPOCH, devices=3))
    end = np.array([float(run.last_iteration)])
    assert run.epochs(end) == 4
    assert run.images(end) == 80 * 8 * 3
    assert run.hours(end) == pytest.approx(80 * 0.5 / 3600)
    assert run.cost(end) == pytest.approx(3 * 80 * 0.5 / 3600)


@pytest.mark.parametrize(('gpu', 'units'), [(True, 2), (False, 2 * 4)])
def test_cost_counts_gpus_or_the_cores_of_all_processes(tmp_path, gpu, units):
    folder = write_start(tmp_path / 'run', '1', 1, 20, devices=2, gpu=gpu)
    log = folder / '1' / 'vis_data' / 'scalars.json'
    log.write_text(log.read_text() + '{"threads": 4, "step": 20}\n')
    assert load_run(folder).units == units


def test_a_probe_belongs_to_the_iteration_before_it(finished):
    iterations, values = load_run(finished).series('probe/knn_top1')
    assert iterations.tolist() == values.tolist() == [20, 40, 60, 80]


@pytest.mark.parametrize(('interval', 'length'), [(10, 17), (7, 23), (4, 4), (50, 64)])
def test_the_length_of_an_epoch_follows_from_sparse_lines(finished, interval, length):
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
    assert run.series('probe/knn_top1')[0].tolist() == [20, 40, 60, 80]
    assert run.status == 'finished, resumed 1×'


@pytest.mark.parametrize('lines', ['', '{"coco/bbox_mAP": 0.3, "step": 0}\n'])
def test_a_start_that_did_not_train_is_no_start(finished, lines):
    before = load_run(finished)
    data = finished / '20260109_000000' / 'vis_data'
    data.mkdir(parents=True)
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
    losses = {10: float('nan')}
    run = load_run(write_start(tmp_path / 'run', '1', 1, 20, loss=lambda i: losses.get(i, 1.0)))
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


def test_a_folder_without_log_is_a_users_error(tmp_path):
    with pytest.raises(UserError, match='holds no log'):
        load_run(tmp_path)
