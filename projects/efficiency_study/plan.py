"""Which runs the study has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = 'projects/efficiency_study/configs/{}.py'
BASELINE = 'configs/baselines/{}_r18_cifar10mini_1xb104_20e.py'


def is_ours(config: str) -> bool:
    """Whether a method is a truncated triplet one; their configs are the study's own."""
    return config.startswith(Path(OURS).parts[0])


@dataclass(frozen=True)
class Job:
    """One run: its folder, what it trains and what is changed of the config."""

    name: str
    method: str
    config: str
    epochs: int
    lr: float
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def changes(self) -> dict[str, Any]:
        """The whole of ``--cfg-options``."""
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
    """The same search and the same seeds for every method.

    Args:
        methods: config by name.
        rates: learning rates that are tried, with the first seed.
        search_epochs: length of those runs; each has a whole schedule.
        epochs: length of the runs that compare the methods.
        seeds: of these runs.
        ablations: by name a method and the changes of its model. Each is the run of the search that
            was best for the method, with these changes.
        options: changes of every run.
    """

    methods: Mapping[str, str]
    rates: Sequence[float]
    search_epochs: int
    epochs: int
    seeds: Sequence[int]
    ablations: Mapping[str, tuple[str, Mapping[str, Any]]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def search(self) -> Iterator[Job]:
        for lr in self.rates:
            for method, config in self.methods.items():
                name = f'search/{method}-lr{lr}'
                seed = self.seeds[0]
                yield Job(name, method, config, self.search_epochs, lr, seed, self._short())

    def methods_with(
        self, rates: Mapping[str, float], seeds: Sequence[int] | None = None
    ) -> Iterator[Job]:
        for seed in self.seeds if seeds is None else seeds:
            for method, config in self.methods.items():
                name, lr = f'methods/{method}-seed{seed}', rates[method]
                yield Job(name, method, config, self.epochs, lr, seed, self.options)

    def ablations_with(self, rates: Mapping[str, float]) -> Iterator[Job]:
        for name, (method, changes) in self.ablations.items():
            config, lr, seed = self.methods[method], rates[method], self.seeds[0]
            options = self._short() | {f'+model.{key}': value for key, value in changes.items()}
            name = f'ablations/{name}'
            yield Job(name, method, config, self.search_epochs, lr, seed, options)

    def _short(self) -> dict[str, Any]:
        return {**self.options, 'default_hooks.probe.linear': False}  # kNN decides


PLAN = Plan(
    methods={
        **{
            name: OURS.format(name) for name in ('ttl_smooth', 'ttl_k5', 'ttl_median', 'ttl_direct')
        },
        **{
            name: BASELINE.format(name)
            for name in ('byol', 'simsiam', 'simclr', 'moco', 'mocov2', 'swav', 'supervised')
        },
    },
    rates=(0.03, 0.1, 0.3),
    search_epochs=4,
    epochs=10,
    seeds=(0, 1, 2),
    ablations={
        'k1': ('ttl_smooth', {'head.ranks': (1, 1)}),
        'k10': ('ttl_smooth', {'head.ranks': (10, 10)}),
        'margin-0.3': ('ttl_smooth', {'head.margin': -0.3}),
        'margin-1.2': ('ttl_smooth', {'head.margin': -1.2}),
        'k52_ceiling0': ('ttl_median', {'head.deputy_ceiling': 0.0}),
        'direct_momentum0.9': ('ttl_direct', {'base_momentum': 0.9}),
        'direct_gamma2': ('ttl_direct', {'head.gamma': 2.0}),
        'direct_ranks1-5': ('ttl_direct', {'head.ranks': (1, 5)}),
        'simclr_temperature0.1': ('simclr', {'head.temperature': 0.1}),
        'simclr_temperature0.5': ('simclr', {'head.temperature': 0.5}),
    },
)
