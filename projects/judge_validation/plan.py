"""Which runs the measures without labels are compared with accuracy on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

OURS = 'projects/efficiency_study/configs/{}.py'
HELD_OUT_SEEDS = (2,)  # of runs that no constant was chosen on
BASELINE = 'configs/baselines/{}_r14_cifar10mini_1xb104_20e.py'
RATES = (0.01, 0.1, 0.5)
METHODS = {
    **{name: OURS.format(name) for name in ('ttl_direct', 'ttl_ranks2-10', 'ttl_median')},
    **{name: BASELINE.format(name) for name in ('simclr', 'byol', 'simsiam', 'mocov2', 'swav')},
}
SAME_VIEWS = {'area': (1.0, 1.0), 'ratio': (1.0, 1.0), 'flip': 0.0, 'jitter': 0.0, 'grayscale': 0.0}


@dataclass(frozen=True)
class Job:
    """One run: a method, its learning rate, and what is changed in its config."""

    name: str
    method: str
    lr: float = 0.1
    seed: int = 0
    epochs: int = 4
    model: Mapping[str, Any] = field(default_factory=dict)  # by dotted key
    view: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> str:
        return METHODS[self.method]


def jobs() -> Iterator[Job]:
    """All runs, those that say most first."""
    for lr in (0.1, 0.5, 0.01):
        for method in METHODS:
            yield Job(f'{method}-lr{lr}', method, lr)
    for method in METHODS:  # how much a longer schedule brings
        yield Job(f'{method}-long', method, epochs=8)
    ours, simclr = 'ttl_direct', 'simclr'
    for deputy in (1, 'all', 52):
        yield Job(f'{ours}-deputy_{deputy}', ours, model={'head.deputy': deputy})
    yield Job(f'{ours}-gamma2', ours, model={'head.gamma': 2.0})
    for temperature in (0.05, 1.0):
        model = {'head.temperature': temperature}
        yield Job(f'{simclr}-temperature{temperature}', simclr, model=model)
    for method in (ours, simclr):
        yield Job(f'{method}-same_views', method, view=SAME_VIEWS)
        yield Job(f'{method}-narrow_views', method, view={'area': (0.8, 1.0), 'jitter': 0.0})
        yield Job(f'{method}-seed1', method, seed=1)
        yield Job(f'{method}-lr3', method, 3.0)
    yield Job('byol-fixed_target', 'byol', model={'base_momentum': 1e-6})
    yield Job('ttl_ranks2-10-fixed_target', 'ttl_ranks2-10', model={'target_momentum': 1.0})


def held_out_jobs() -> Iterator[Job]:
    """Runs that only test the forecasts: every method, two lengths, seeds that no other run has."""
    for seed in HELD_OUT_SEEDS:
        for method in METHODS:
            yield Job(f'{method}-seed{seed}', method, seed=seed)
            yield Job(f'{method}-long-seed{seed}', method, seed=seed, epochs=8)
