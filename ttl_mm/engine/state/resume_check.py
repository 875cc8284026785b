"""What a resumed run no longer has in common with the run it continues."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import config_text

_COMPARED = ('model', 'train_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg')


def differences(saved: Mapping[str, Any], now: RunSettings, cfg) -> list[str]:
    """One sentence for every setting that changed; empty if the run will be the same."""
    changed = RunSettings.from_saved(saved['settings']).changes(now)
    sentences = []
    if changed:
        sentences.append(
            f'Not the same run any more ({", ".join(changed)}). What no longer matches: the order '
            'of images, the statistics of a batch, the meaning of an iteration (schedules that '
            'count iterations go on by their own count), gradients accumulated but not applied.'
        )
    old, new = json.loads(saved['config']), json.loads(config_text(cfg))
    edits = [
        f'{key}: {left!r} -> {right!r}'
        for part in _COMPARED
        for key, left, right in _edits(old.get(part), new.get(part), part)
    ]
    if edits:
        more = f' and {len(edits) - 10} more' if len(edits) > 10 else ''
        sentences.append(f'The config has changed since: {"; ".join(edits[:10])}{more}.')
    return sentences


def _edits(old: Any, new: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _edits(old.get(name), new.get(name), f'{key}.{name}')
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (left, right) in enumerate(zip(old, new)):
            yield from _edits(left, right, f'{key}.{i}')
    elif old != new:
        yield key, old, new


def in_epochs_of_now(epoch: int, iteration: int, old: int, new: int) -> int:
    """The iteration at the same share of an epoch, where epochs had ``old`` and have ``new``."""
    return epoch * new + (iteration - epoch * old) * new // old
