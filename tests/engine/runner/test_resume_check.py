import json

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


def sampler(**settings):
    return {'sampler': settings}


def test_another_name_for_the_same_is_no_change():
    for key, before, after in [
        ('train_cfg', {'type': 'EpochBasedTrainLoop'}, {'type': 'ttl_mm.EpochLoop'}),
        ('train_cfg', {'by_epoch': False}, {'type': 'ttl_mm.IterLoop'}),
        ('train_dataloader', sampler(type='DefaultSampler'), sampler(type='ttl_mm.EpochSampler')),
        ('model', ttl(ranks=[2, 10]), ttl(deputy=[2, 10])),
        ('model', ttl(), ttl(deputy='median')),
        ('model', ttl(k=5), ttl(deputy=5)),
        ('model', {**ttl(), 'base_momentum': 0.9}, {**ttl(), 'target_momentum': 0.9}),
    ]:
        assert changes({key: before}, {key: after}) == []
        (sentence,) = changes({key: {**before, 'more': 1}}, {key: after})
        assert sentence == f'The config has changed since: {key}.more: 1 -> None.'


def test_the_preprocessor_of_the_model_may_stand_outside():
    pixels = {'mean': [78, 78, 78]}
    before = {'data_preprocessor': pixels, 'model': {'type': 'BYOL'}}
    assert changes(before, {'model': {'type': 'BYOL', 'data_preprocessor': pixels}}) == []


def test_changes_are_named_up_to_ten():
    before = {'param_scheduler': [{'end': 3}, *({'end': i} for i in range(11))]}
    (sentence,) = changes(before, {'param_scheduler': [{'end': -1}] * 12})
    assert 'since: param_scheduler.0.end: 3 -> -1; param_scheduler.1.end: 0 -> -1; ' in sentence
    assert sentence.endswith(' and 2 more.')
