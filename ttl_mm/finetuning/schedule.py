"""How long and how fast a network is trained, fitted to the data."""

from dataclasses import dataclass
from typing import Any

from mmengine.config import Config


@dataclass(frozen=True)
class Schedule:
    """What of the training can be chosen; None leaves it to the recipe and the images."""

    epochs: int | None = None
    batch_size: int = 4
    rate: float | None = None  # for as many images as in the recipe
    workers: int = 2


def fitted_epochs(epochs: int, steps: int, least: int) -> int:
    """Epochs of so many steps each: those of the recipe, or more if the run had fewer than least.

    >>> fitted_epochs(20, 100, least=200), fitted_epochs(20, 2, least=200)
    (20, 100)
    """
    return max(epochs, -(-least // steps))


def set_epochs(cfg: Config, epochs: int, validations: int) -> None:
    """Drops of the rate keep their place in the run; so many validations, a checkpoint at each."""
    share = epochs / cfg.train_cfg.max_epochs
    (drops,) = cfg.param_scheduler
    drops.milestones = [max(1, round(share * epoch)) for epoch in drops.milestones]
    interval = max(1, epochs // validations)
    cfg.train_cfg.update(max_epochs=epochs, val_interval=interval)
    cfg.default_hooks.checkpoint.interval = interval


def set_workers(loader: Any, workers: int) -> None:
    """Let so many processes load images."""
    loader.num_workers, loader.persistent_workers = workers, workers > 0
