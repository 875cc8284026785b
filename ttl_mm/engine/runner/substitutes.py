"""Our parts for configs that name mmengine's, as those of mmpretrain and mmdet do.

Only with ours does a run know its exact position. :class:`Substitutes` remembers what it replaced
and what it added, so that the log can say it in one line.
"""

from collections.abc import Mapping
from typing import Any

# mmengine's parts and ours in their place; their settings carry over
OURS = {
    'EpochBasedTrainLoop': 'ttl_mm.EpochLoop',
    'IterBasedTrainLoop': 'ttl_mm.IterLoop',
    'DefaultSampler': 'ttl_mm.EpochSampler',
    'InfiniteSampler': 'ttl_mm.EpochSampler',
    'CheckpointHook': 'ttl_mm.CheckpointHook',
}
# in the order in which they run; configs/_base_/default_runtime.py shows them with the gauges
DEFAULT_HOOKS: dict[str, dict[str, Any]] = {
    'runtime_info': {'type': 'RuntimeInfoHook'},
    'preflight': {'type': 'ttl_mm.PreflightHook'},
    'finite': {'type': 'ttl_mm.FiniteHook'},
    'timer': {'type': 'IterTimerHook'},
    'sampler_seed': {'type': 'DistSamplerSeedHook'},
    'progress': {'type': 'ttl_mm.ProgressHook'},
    'collapse': {'type': 'ttl_mm.CollapseHook'},
    'symptoms': {'type': 'ttl_mm.SymptomsHook'},
    'bad_images': {'type': 'ttl_mm.BadImagesHook'},
    'logger': {'type': 'LoggerHook', 'interval': 50},
    'param_scheduler': {'type': 'ParamSchedulerHook'},
    'stall': {'type': 'ttl_mm.StallHook'},
    'checkpoint': {'type': 'ttl_mm.CheckpointHook', 'interval': 1, 'max_keep_ckpts': 3},
    'preemption': {'type': 'ttl_mm.PreemptionHook'},
}


class Substitutes:
    """What runs in the place of what a config names, and what the config does not name."""

    def __init__(self) -> None:
        self.replaced: dict[str, str] = {}
        self.added: list[str] = []

    def loop(self, loop: Mapping) -> dict:
        """The config of a training loop, with our loop."""
        loop = dict(loop)
        if 'type' not in loop and 'by_epoch' in loop:
            by_epoch = loop.pop('by_epoch')
            loop['type'] = 'EpochBasedTrainLoop' if by_epoch else 'IterBasedTrainLoop'
        return self._ours(loop)

    def dataloader(self, dataloader: Any) -> Any:
        """The config of the training data, with our sampler."""
        if not isinstance(dataloader, Mapping):
            return dataloader
        dataloader = dict(dataloader)
        if isinstance(collate := dataloader.get('collate_fn'), Mapping):
            # a base from another package (mmpretrain::...) leaves its scope here, as an argument
            dataloader['collate_fn'] = {k: v for k, v in collate.items() if k != '_scope_'}
        if isinstance(sampler := dataloader.get('sampler'), Mapping):
            ours = self._ours(sampler)
            if ours['type'] != sampler['type']:
                ours = {'type': ours['type'], 'shuffle': sampler.get('shuffle', True)}
            dataloader['sampler'] = ours
        return dataloader

    def hooks(self, given: Mapping | None) -> dict[str, Any]:
        """All default hooks: those of the config, then ours; None removes one."""
        given = given or {}
        chosen: dict[str, Any] = {}
        for name in {**DEFAULT_HOOKS, **given}:
            default, hook = DEFAULT_HOOKS.get(name, {}), given.get(name, {})
            if hook is None:
                continue
            if not isinstance(hook, Mapping):  # an object
                chosen[name] = hook
            elif 'type' in hook:
                chosen[name] = self._ours(hook)
            else:
                chosen[name] = {**default, **hook}
                if default.get('type', '').startswith('ttl_mm.'):
                    self.added.append(name)
        return chosen

    def _ours(self, part: Mapping) -> dict:
        name = _mmengine_name(part.get('type'))
        if name not in OURS:
            return dict(part)
        self.replaced[name] = OURS[name]
        return {**part, 'type': OURS[name]}

    def __str__(self) -> str:
        """One line for the log; empty if all that runs is what the config names."""
        lists = (self.replaced, self.replaced.values(), self.added)
        theirs, ours, added = (', '.join(names) for names in lists)
        sentences = [f'In place of {theirs}: {ours}.'] if theirs else []
        if added:
            sentences.append(f'Hooks of ttl_mm that the config does not name: {added}.')
        return ' '.join(sentences)


def _mmengine_name(kind: Any) -> str | None:
    """'DefaultSampler' of mmengine's class of that name, however it is spelled."""
    if isinstance(kind, type):
        kind = f'{kind.__module__.partition(".")[0]}.{kind.__name__}'
    package, _, name = (kind or '').rpartition('.')
    return name if package in ('', 'mmengine') else None
