"""Which runs the study has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = 'projects/efficiency_study/configs/{}.py'
BASELINE = 'configs/baselines/{}_r18_cifar10mini_1xb104_20e.py'


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
        if self.config.startswith('projects'):
            found['default_hooks.target_update.horizon_epochs'] = self.epochs
        return found | dict(self.options)


@dataclass(frozen=True)
class Plan:
    """The same search and the same seeds for every method.

    Args:
        methods: config by name.
        rates: learning rates that are tried, with the first seed.
        search_epochs: length of those runs; each has a whole schedule.
        epochs: length of all others.
        seeds: of the methods; ablations have the first one.
        ablations: changes of the head of ``ablated``, by name.
        ablated: method that the ablations change, at its own learning rate.
        options: changes of every run.
    """

    methods: Mapping[str, str]
    rates: Sequence[float]
    search_epochs: int
    epochs: int
    seeds: Sequence[int]
    ablations: Mapping[str, Mapping[str, Any]]
    ablated: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def search(self) -> Iterator[Job]:
        options = {**self.options, 'default_hooks.probe.linear': False}  # kNN decides
        for lr in self.rates:
            for method, config in self.methods.items():
                name = f'search/{method}-lr{lr}'
                seed = self.seeds[0]
                yield Job(name, method, config, self.search_epochs, lr, seed, options)

    def methods_with(
        self, rates: Mapping[str, float], seeds: Sequence[int] | None = None
    ) -> Iterator[Job]:
        for seed in self.seeds if seeds is None else seeds:
            for method, config in self.methods.items():
                name, lr = f'methods/{method}-seed{seed}', rates[method]
                yield Job(name, method, config, self.epochs, lr, seed, self.options)

    def ablations_with(self, rates: Mapping[str, float]) -> Iterator[Job]:
        config, lr = self.methods[self.ablated], rates[self.ablated]
        for name, changes in self.ablations.items():
            head = {f'+model.head.{key}': value for key, value in changes.items()}
            options = {**self.options, **head}
            name = f'ablations/{name}'
            yield Job(name, self.ablated, config, self.epochs, lr, self.seeds[0], options)


PLAN = Plan(
    methods={
        **{name: OURS.format(name) for name in ('ttl_smooth', 'ttl_k5', 'ttl_median')},
        **{
            name: BASELINE.format(name)
            for name in ('byol', 'simsiam', 'simclr', 'moco', 'mocov2', 'swav', 'supervised')
        },
    },
    rates=(0.03, 0.1, 0.3),
    search_epochs=4,
    epochs=12,
    seeds=(0, 1, 2),
    ablated='ttl_smooth',
    ablations={
        'k1': {'ranks': (1, 1)},
        'k2': {'ranks': (2, 2)},
        'k10': {'ranks': (10, 10)},
        'k26': {'ranks': (26, 26)},
        'margin-2': {'margin': -2.0},
        'margin-0.3': {'margin': -0.3},
        'ceiling0': {'deputy_ceiling': 0.0},
        'k52_ceiling0': {'ranks': (52, 52), 'deputy_ceiling': 0.0},
    },
)
