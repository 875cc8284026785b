"""The numbers of a recipe that a plan adapts, read from its config; and those of the paper."""

from pathlib import Path
from typing import NamedTuple

from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.files.recipes import recipes_root
from ttl_mm.planning.optimizers import IMAGES, OPTIMIZERS


class Recipe(NamedTuple):
    """What a schedule is made of; the defaults are the paper's, on ImageNet."""

    devices: int = 8
    batch: int = 104
    accumulation: int = 5
    lr: float = 4.8
    epochs: int = 200
    target_momentum: float = 0.99

    @property
    def images_per_iteration(self) -> int:
        """Images behind one statistic of BatchNorm, which is synchronized over devices."""
        return self.devices * self.batch

    @property
    def images_per_step(self) -> int:
        """Images behind one step of the optimizer."""
        return self.images_per_iteration * self.accumulation


PAPER = Recipe()
PAPER_IMAGES = 1_281_167


def read_recipe(config: str | Path) -> Recipe:
    """Read a recipe from one of our configs."""
    config = Path(config)
    if not config.is_file():
        raise UserError(
            f'{config} does not exist: name a config with --config, such as those in configs/ of a '
            'checkout of this project.'
        )
    cfg = read_config(config)
    if cfg.get('model', {}).get('target_momentum', 0) is None:
        raise UserError(
            f'{config} has no target network and weighs its ranks, so there is no k to plan: use '
            '`ttl train IMAGES --config-out FILE`, or another recipe.'
        )
    try:
        batch = cfg.train_dataloader.batch_size
        return Recipe(
            devices=cfg.auto_scale_lr.base_batch_size // batch,
            batch=batch,
            accumulation=cfg.optim_wrapper.get('accumulative_counts', 1),
            lr=cfg.optim_wrapper.optimizer.lr,
            epochs=cfg.train_cfg.max_epochs,
            target_momentum=cfg.model.target_momentum,
        )
    except (AttributeError, KeyError) as error:
        raise UserError(f'{config} is not a truncated-triplet recipe by epochs: {error}') from error


def with_rate_of(recipe: Recipe, norm: str) -> Recipe:
    """The recipe with the learning rate of a network that needs another optimizer."""
    choice = OPTIMIZERS[norm]
    if choice is None:
        return recipe
    return recipe._replace(lr=choice.lr * recipe.images_per_step / IMAGES)


def default_recipe() -> Path:
    """The main recipe."""
    return recipes_root() / 'configs' / 'ttl_r50_8xb104_200e.py'
