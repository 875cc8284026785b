import json

import pytest
from mmengine.config import Config

from ttl_mm.engine.runner.resume_check import differences
from ttl_mm.engine.state.run_settings import RunSettings

SETTINGS = dict(
    world_size=1, batch_size_per_rank=4, images=22, iterations_per_epoch=5, accumulative_counts=1,
    seed=0,
)  # fmt: skip


def changes(before, after):
    saved = {'settings': SETTINGS, 'config': json.dumps(before)}
    return differences(saved, RunSettings(**SETTINGS), Config(after))


def ttl(**head):
    return {'type': 'ttl_mm.TTLAlgorithm', 'head': head}


@pytest.mark.parametrize(
    ('key', 'before', 'after'),
    [
        ('train_cfg', {'type': 'EpochBasedTrainLoop'}, {'type': 'ttl_mm.EpochLoop'}),
        ('train_cfg', {'by_epoch': False}, {'type': 'ttl_mm.IterLoop'}),
        (
            'train_dataloader',
            {'sampler': {'type': 'DefaultSampler', 'shuffle': True}},
            {'sampler': {'type': 'ttl_mm.EpochSampler'}},
        ),
        ('model', ttl(ranks=[2, 10]), ttl(deputy=[2, 10])),
        ('model', ttl(), ttl(deputy='median')),
        ('model', ttl(k=5), ttl(deputy=5)),
        ('model', {**ttl(), 'base_momentum': 0.9}, {**ttl(), 'target_momentum': 0.9}),
    ],
)
def test_another_name_for_the_same_is_no_change(key, before, after):
    assert changes({key: before}, {key: after}) == []
    assert changes({key: {**before, 'more': 1}}, {key: after}) == [
        f'The config has changed since: {key}.more: 1 -> None.'
    ]


def test_the_preprocessor_of_the_model_may_stand_outside():
    pixels = {'mean': [78, 78, 78]}
    before = {'data_preprocessor': pixels, 'model': {'type': 'BYOL'}}
    assert changes(before, {'model': {'type': 'BYOL', 'data_preprocessor': pixels}}) == []


def test_changes_are_named_up_to_ten():
    before = {'optim_wrapper': {f'a{i}': i for i in range(12)}, 'param_scheduler': [{'end': 3}]}
    (sentence,) = changes(before, {'optim_wrapper': {}, 'param_scheduler': [{'end': 4}]})
    assert 'optim_wrapper.a0: 0 -> None; ' in sentence
    assert sentence.endswith(' and 3 more.')
    (sentence,) = changes({'param_scheduler': [{'end': 3}]}, {'param_scheduler': [{'end': 4}]})
    assert sentence == 'The config has changed since: param_scheduler.0.end: 3 -> 4.'
