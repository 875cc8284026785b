"""Which runs the study has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = 'projects/efficiency_study/configs/{}.py'
BASELINE = 'configs/baselines/{}_r14_cifar10mini_1xb104_20e.py'


def is_ours(config: str) -> bool:
    """Whether a method is a truncated triplet one; their configs are the study's own."""
    return config.startswith(Path(OURS).parts[0])


@dataclass(frozen=True)
class Job:
    """One run: its folder, the config that it trains, and the changes to that config."""

    name: str
    method: str
    config: str
    epochs: int
    lr: float
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def changes(self) -> dict[str, Any]:
        """All ``--cfg-options`` of the run."""
        found = {
            'train_cfg.max_epochs': self.epochs,
            'param_scheduler.1.T_max': self.epochs,
            'param_scheduler.1.end': self.epochs,
            'optim_wrapper.optimizer.lr': self.lr,
            'randomness.seed': self.seed,
        }
        if is_ours(self.config):
            found['default_hooks.target_update.horizon_epochs'] = self.epochs
        return found | dict(self.options)


@dataclass(frozen=True)
class Plan:
    """The same search and the same seeds for every method, then more seeds for the best.

    Args:
        methods: config by name.
        rates: learning rates that are tried, with the first seed.
        search_epochs: length of those runs; each has a whole schedule.
        epochs: length of the runs that compare the methods.
        seeds: of these runs, for every method.
        ablations: by name, a method and the changes to its model. Each repeats the best run of the
            method's search with these changes.
        finals: more seeds, by the name of a method or of an ablation that runs the whole length.
        options: changes to every run.
    """

    methods: Mapping[str, str]
    rates: Sequence[float]
    search_epochs: int
    epochs: int
    seeds: Sequence[int]
    ablations: Mapping[str, tuple[str, Mapping[str, Any]]]
    finals: Mapping[str, Sequence[int]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def search(self) -> Iterator[Job]:
        for lr in self.rates:
            for method, config in self.methods.items():
                name = f'search/{method}-lr{lr}'
                seed = self.seeds[0]
                yield Job(name, method, config, self.search_epochs, lr, seed, self._short())

    def contenders(self) -> dict[str, list[int]]:
        """The methods and ablations that run the whole length, with their seeds."""
        names = [*self.methods, *(name for name in self.finals if name not in self.methods)]
        common = {name: self.seeds if name in self.methods else () for name in names}
        return {name: [*common[name], *self.finals.get(name, ())] for name in names}

    def method_of(self, name: str) -> str:
        """The method itself, or the method that an ablation changes."""
        return name if name in self.methods else self.ablations[name][0]

    def methods_with(self, rates: Mapping[str, float]) -> Iterator[Job]:
        runs = [(seed, name) for name, seeds in self.contenders().items() for seed in seeds]
        for seed, name in sorted(runs, key=lambda run: run[0]):
            folder = f'methods/{name}-seed{seed}'
            yield self._job(folder, name, self.epochs, rates, seed, self.options)

    def ablations_with(self, rates: Mapping[str, float]) -> Iterator[Job]:
        for name in self.ablations:
            folder, seed = f'ablations/{name}', self.seeds[0]
            yield self._job(folder, name, self.search_epochs, rates, seed, self._short())

    def _job(self, folder: str, name: str, epochs: int, rates, seed: int, options) -> Job:
        method = self.method_of(name)
        changes = self.ablations[name][1] if name in self.ablations else {}
        options = {**options, **{f'+model.{key}': value for key, value in changes.items()}}
        return Job(folder, method, self.methods[method], epochs, rates[method], seed, options)

    def _short(self) -> dict[str, Any]:
        return {**self.options, 'default_hooks.probe.linear': False}  # the search is decided by kNN


PLAN = Plan(
    methods={
        **{
            name: OURS.format(name)
            for name in ('ttl_ranks2-10', 'ttl_k5', 'ttl_median', 'ttl_direct')
        },
        **{
            name: BASELINE.format(name)
            for name in ('byol', 'simsiam', 'simclr', 'moco', 'mocov2', 'swav', 'supervised')
        },
    },
    rates=(0.03, 0.1, 0.3),
    search_epochs=4,
    epochs=10,
    seeds=(0, 1),
    ablations={
        'k1': ('ttl_ranks2-10', {'head.deputy': 1}),
        'k10': ('ttl_ranks2-10', {'head.deputy': 10}),
        'margin-0.3': ('ttl_ranks2-10', {'head.margin': -0.3}),
        'margin-1.2': ('ttl_ranks2-10', {'head.margin': -1.2}),
        'k52_ceiling0': ('ttl_median', {'head.deputy_ceiling': 0.0}),
        'direct_momentum0.9': ('ttl_direct', {'target_momentum': 0.9}),
        'direct_gamma2': ('ttl_direct', {'head.gamma': 2.0}),
        'direct_ranks1-5': ('ttl_direct', {'head.deputy': (1, 5)}),
        'simclr_temperature0.1': ('simclr', {'head.temperature': 0.1}),
        'simclr_temperature0.5': ('simclr', {'head.temperature': 0.5}),
    },
    finals={
        'direct_ranks1-5': (0, 1, 2),
        'simclr_temperature0.1': (0, 1, 2),
        'ttl_direct': (2,),
        'simclr': (2,),
        'ttl_ranks2-10': (2,),
    },
)
