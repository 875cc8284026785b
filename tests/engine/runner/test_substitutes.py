import mmengine.dataset

from tests.helpers.paths import ROOT
from ttl_mm.config import read_config
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.engine.runner.substitutes import DEFAULT_HOOKS, Substitutes


def test_the_log_names_both():
    for kind, name in [
        ('DefaultSampler', 'DefaultSampler'),
        ('mmengine.InfiniteSampler', 'InfiniteSampler'),
        (mmengine.dataset.DefaultSampler, 'DefaultSampler'),
    ]:
        ours, theirs = Substitutes(), {'type': kind, 'shuffle': False, 'seed': 3}
        data = ours.dataloader({'batch_size': 2, 'sampler': theirs})
        sampler = {'type': 'ttl_mm.EpochSampler', 'shuffle': False}
        assert data == {'batch_size': 2, 'sampler': sampler}
        loop = ours.loop({'by_epoch': False, 'max_iters': 3})
        assert loop == {'type': 'ttl_mm.IterLoop', 'max_iters': 3}
        hooks = {**DEFAULT_HOOKS, 'checkpoint': {'type': 'CheckpointHook', 'interval': 5}}
        hook = ours.hooks(hooks)['checkpoint']
        assert hook == {'type': 'ttl_mm.CheckpointHook', 'interval': 5}
        assert str(ours) == (
            f'In place of {name}, IterBasedTrainLoop, CheckpointHook: ttl_mm.EpochSampler, '
            'ttl_mm.IterLoop, ttl_mm.CheckpointHook.'
        )


def test_what_is_not_mmengines_stays():
    substitutes = Substitutes()
    for kind in ('ttl_mm.EpochSampler', 'mmdet.DefaultSampler', EpochSampler):
        loader = {'sampler': {'type': kind, 'seed': 1}}
        assert substitutes.dataloader(loader) == loader
    assert str(substitutes) == ''


def test_hooks_are_added_changed_and_removed():
    substitutes = Substitutes()
    given = {'finite': {'max_skips': 2}, 'stall': None, 'mine': {'type': 'EMAHook'}}
    hooks = substitutes.hooks(given)
    assert hooks['finite'] == {'type': 'ttl_mm.FiniteHook', 'max_skips': 2}
    assert 'stall' not in hooks
    assert [*hooks] == [*(name for name in DEFAULT_HOOKS if name != 'stall'), 'mine']
    assert str(substitutes).startswith('Hooks of ttl_mm that the config does not name: preflight, ')
    assert 'stall' not in str(substitutes)


def test_the_runtime_of_the_recipes_shows_every_hook_and_nothing_is_put_in():
    shown = read_config(ROOT / 'configs/_base_/default_runtime.py').default_hooks.to_dict()
    assert shown.pop('gauges') == {'type': 'ttl_mm.GaugeHook'}
    assert [*shown.items()] == [*DEFAULT_HOOKS.items()]


def test_every_recipe_names_the_loop_sampler_and_hooks_that_run():
    recipes = [p for p in (ROOT / 'configs').rglob('*.py') if '_base_' not in p.parts]
    recipes += (ROOT / 'projects').glob('*/configs/*.py')
    assert len(recipes) > 50
    for path in recipes:
        config, substitutes = read_config(path), Substitutes()
        substitutes.loop(config.train_cfg)
        substitutes.dataloader(config.train_dataloader)
        substitutes.hooks(config.default_hooks)
        assert substitutes.replaced == {}, path
