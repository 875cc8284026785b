"""A changed learning rate is used on resume."""

import math

import pytest
import torch
from mmengine.registry import PARAM_SCHEDULERS

from tests.helpers.toy_run import STOP, assert_same_run, log_file
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed
from ttl_mm.engine.runner.schedule import stretched
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR

COSINE = 'param_scheduler = [dict(type="CosineAnnealingLR", T_max={0}, end={0}, by_epoch={1})]\n'


def rate_at(work_dir):
    """The learning rate of the newest checkpoint, which the next step would use."""
    path, _ = newest_valid(work_dir)
    return read_sealed(path)['optimizer']['param_groups'][0]['lr']


def cosine(share, rate):
    return rate * (1 + math.cos(math.pi * share)) / 2


@pytest.mark.parametrize(('length', 'by_epoch', 'done'), [(4, True, 2), (20, False, 12)])
def test_another_rate_is_used_as_if_it_had_been_so_from_the_beginning(
    tmp_path, toy, length, by_epoch, done
):
    cosines, work = COSINE.format(length, by_epoch), tmp_path / 'work'
    assert toy(more=cosines + STOP.format(7)) == [PREEMPTED]
    new = {'optim_wrapper.optimizer.lr': 0.002, 'optim_wrapper.optimizer.momentum': 0.5}
    assert toy(more=cosines + STOP.format(12), cfg_options=new) == [PREEMPTED]
    assert rate_at(work) == pytest.approx(cosine(done / length, 0.002))
    path, _ = newest_valid(work)
    assert read_sealed(path)['optimizer']['param_groups'][0]['momentum'] == 0.5
    log = log_file(work).read_text()
    assert 'optim_wrapper.optimizer.lr: 0.05 -> 0.002' in log
    assert 'Learning rate and schedule follow the config from here on' in log
    assert toy(more=cosines, cfg_options=new) == [0]


def test_another_schedule_and_no_change_at_all(tmp_path, toy):
    """The whole run equals one that was stopped and resumed with the schedules written again."""
    linear = 'param_scheduler = [dict(type="LinearLR", start_factor=0.5, end=20, by_epoch=False)]\n'
    assert toy(more=STOP.format(7)) == [PREEMPTED]
    assert toy(more=linear + STOP.format(10)) == [PREEMPTED]
    assert rate_at(tmp_path / 'work') == pytest.approx(0.05 * (0.5 + 0.5 * 10 / 19))
    same = 'param_scheduler = [dict(s, begin=0) for s in param_scheduler]\n'
    assert toy('whole') == [0]
    assert toy('parts', more=STOP.format(7)) == [PREEMPTED]
    assert toy('parts', more=same) == [0]
    assert 'follow the config' in log_file(tmp_path / 'parts').read_text()
    assert_same_run(tmp_path / 'parts', tmp_path / 'whole')


def test_schedules_go_on_by_images_when_the_batch_changes(tmp_path, toy):
    cosines = COSINE.format(4, True).replace(')]', ', convert_to_iter_based=True)]')
    assert toy(more=cosines + STOP.format(10)) == [PREEMPTED]
    halved = {'train_dataloader.batch_size': 2}
    assert toy(more=cosines + STOP.format(33), cfg_options=halved) == [PREEMPTED]
    # epochs of 11 now: three of four are done
    assert rate_at(tmp_path / 'work') == pytest.approx(cosine(3 / 4, 0.05))


def test_another_optimizer_is_refused_with_the_way_to_do_it(tmp_path, toy):
    assert toy(more=STOP.format(7)) == [PREEMPTED]
    other = "optim_wrapper.update(optimizer=dict(type='AdamW', lr=0.1))\n"
    assert toy(more=other) == [USER_ERROR]
    assert 'load_from=FILE and another --work-dir' in log_file(tmp_path / 'work').read_text()


@pytest.mark.parametrize(
    'config',
    [
        dict(type='LinearLR', start_factor=0.1, begin=0, end=61),
        dict(type='CosineAnnealingLR', T_max=120, begin=0, end=120),
        dict(type='MultiStepLR', milestones=[31, 91], gamma=0.5),
        dict(type='ExponentialLR', gamma=0.99),
        dict(type='StepLR', step_size=30, gamma=0.5),
        dict(type='PolyLR', power=2.0, begin=0, end=121),
    ],
    ids=lambda config: config['type'],
)
def test_a_stretched_schedule_has_the_same_rate_at_the_same_images(config):
    """Two iterations of 12 images in the place of three of 8."""
    whole, short = (rates(stretched(config | dict(by_epoch=False), f), 120) for f in (1, 2 / 3))
    for done in range(0, 118, 3):
        assert short[2 * done // 3] == pytest.approx(whole[done], rel=0.04, abs=1e-3), done


def test_schedules_by_epoch_and_those_that_are_built_stay():
    by_epoch = dict(type='StepLR', step_size=30)
    built = object()
    assert stretched([by_epoch, built], 0.5) == [by_epoch, built]
    several = {'encoder': [dict(type='StepLR', step_size=30, by_epoch=False)], 'head': by_epoch}
    assert stretched(several, 0.5)['encoder'][0]['step_size'] == 15
    assert stretched(several, 0.5)['head'] == by_epoch
    assert stretched(dict(type='LinearLR', begin=1, end=2, by_epoch=False), 0.1)['begin'] == 1


def rates(config, steps):
    """The rate before every step."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = PARAM_SCHEDULERS.build(dict(config, optimizer=optimizer))
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    return found
