"""What a resumed run no longer has in common with the run it continues."""

from collections.abc import Iterator, Mapping
from typing import Any

from ttl_mm.engine.runner.substitutes import Substitutes
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import config_text, read_config_text

_COMPARED = ('model', 'train_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg')


def differences(saved: Mapping[str, Any], now: RunSettings, cfg) -> list[str]:
    """One sentence for every setting that changed; empty if the run will be the same."""
    changed = RunSettings.from_saved(saved['settings']).changes(now)
    sentences = []
    if changed:
        sentences.append(
            f'Not the same run any more ({", ".join(changed)}). Every image still comes once per '
            'epoch, and schedules go on by images seen. What no longer '
            'matches: the statistics of a batch, the meaning of an iteration, gradients '
            'accumulated but not applied.'
        )
    old, new = (
        _in_one_spelling(read_config_text(text)) for text in (saved['config'], config_text(cfg))
    )
    edits = [
        f'{key}: {left!r} -> {right!r}'
        for part in _COMPARED
        for key, left, right in _edits(old.get(part), new.get(part), part)
    ]
    if edits:
        more = f' and {len(edits) - 10} more' if len(edits) > 10 else ''
        sentences.append(f'The config has changed since: {"; ".join(edits[:10])}{more}.')
    return sentences


def _in_one_spelling(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with today's name for what has or had several, so that only meanings differ."""
    ours, config = Substitutes(), dict(config)
    if loop := config.get('train_cfg'):
        config['train_cfg'] = ours.loop(loop)
    if loader := ours.dataloader(config.get('train_dataloader')):
        if (loader.get('sampler') or {}).get('type') == 'ttl_mm.EpochSampler':
            loader['sampler'] = {'shuffle': True, **loader['sampler']}
        config['train_dataloader'] = loader
    if model := config.get('model'):
        model = {'data_preprocessor': config.get('data_preprocessor'), **model}
        if model.get('type') == 'ttl_mm.TTLAlgorithm':
            if 'base_momentum' in model:
                model['target_momentum'] = model.pop('base_momentum')
            head = model['head'] = dict(model['head'])
            ranks, k = head.pop('ranks', None), head.pop('k', None)
            head.setdefault('deputy', ranks or k or 'median')
        config['model'] = model
    return config


def _edits(old: Any, new: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from _edits(old.get(name), new.get(name), f'{key}.{name}')
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (left, right) in enumerate(zip(old, new)):
            yield from _edits(left, right, f'{key}.{i}')
    elif old != new:
        yield key, old, new
