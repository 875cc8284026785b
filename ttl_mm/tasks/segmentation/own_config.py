"""The config of ``ttl segment train``: the recipe of projects/segmentation, fitted to the data."""

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ttl_mm.config import read_config
from ttl_mm.evaluation.resnet import Backbone
from ttl_mm.files.recipes import recipes_root

RECIPE = 'projects/segmentation/configs/fcn_r50_voc_50e.py'
SIZE = 513  # edge of the patches in the recipe
STEPS = 400  # at least, however few the images are
VALIDATIONS = 10  # of a run


@dataclass(frozen=True)
class Schedule:
    """What of the training can be chosen; None leaves it to the recipe and the images."""

    epochs: int | None = None
    batch_size: int = 4
    rate: float | None = None  # for 16 images, as in the recipe
    workers: int = 2


@cache
def _read() -> Config:
    return read_config(recipes_root() / RECIPE)


def model_config(backbone: Backbone, classes: int, random: bool = True) -> Config:
    """The recipe with the network for this backbone and so many classes."""
    cfg = copy.deepcopy(_read())
    net = cfg.model
    net.data_preprocessor.update(mean=list(backbone.mean), std=list(backbone.std))
    init: dict[str, Any] = {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': backbone.weights}
    kept = {key: net.backbone[key] for key in ('strides', 'dilations', 'out_indices', 'norm_cfg')}
    net.backbone = {**backbone.config, **kept, 'init_cfg': None if random else init}
    net.update(in_channels=backbone.channels[3], channels=backbone.width, num_classes=classes)
    return cfg


def training_config(
    backbone: Backbone,
    data: str | Path,
    classes: int,
    images: int,
    size: int = SIZE,
    schedule: Schedule | None = None,
    random: bool = False,
    seed: int = 0,
) -> Config:
    """A whole config of one run.

    Args:
        backbone: To start from.
        data: What :func:`ttl_mm.tasks.segmentation.masked.read_masks` takes.
        classes: How many there are.
        images: How many there are to train on; the length is fitted to them.
        size: Edge of the patches, and short side of the images in a test.
        schedule: Choices of the user.
        random: Start with random weights in the place of those of ``backbone``.
        seed: Of everything that is random.
    """
    schedule = schedule or Schedule()
    cfg = model_config(backbone, classes, random)
    batch = min(schedule.batch_size, images)
    for name in ('train', 'val'):
        loader = cfg[f'{name}_dataloader']
        loader.dataset.data = str(Path(data).resolve())
        loader.num_workers, loader.persistent_workers = schedule.workers, schedule.workers > 0
    cfg.train_dataloader.batch_size = batch
    cfg.train_dataloader.dataset.pipeline[1].size = size
    cfg.val_dataloader.dataset.pipeline = plain_pipeline(size)
    cfg.test_dataloader = cfg.val_dataloader
    rate = cfg.optim_wrapper.optimizer.lr if schedule.rate is None else schedule.rate
    cfg.optim_wrapper.optimizer.lr = rate * batch / cfg.auto_scale_lr.base_batch_size
    cfg.auto_scale_lr.base_batch_size = batch
    _set_length(cfg, schedule.epochs or fitted_epochs(cfg.train_cfg.max_epochs, images // batch))
    cfg.randomness = {'seed': seed}
    return cfg


def fitted_epochs(epochs: int, steps: int) -> int:
    """Epochs of so many steps each: those of the recipe, or more where that is too short a run.

    >>> fitted_epochs(50, 100), fitted_epochs(50, 2)
    (50, 200)
    """
    return max(epochs, -(-STEPS // steps))


def plain_pipeline(size: int) -> list[dict]:
    """Images of a short side, as every network here is tested."""
    return [
        {'type': 'ttl_mm.LoadMasked'},
        {'type': 'ttl_mm.ShortSide', 'size': size},
        {'type': 'ttl_mm.PackMasked'},
    ]


def _set_length(cfg: Config, epochs: int) -> None:
    share = epochs / cfg.train_cfg.max_epochs
    (drops,) = cfg.param_scheduler
    drops.milestones = [max(1, round(share * epoch)) for epoch in drops.milestones]
    interval = max(1, epochs // VALIDATIONS)
    cfg.train_cfg.update(max_epochs=epochs, val_interval=interval)
    cfg.default_hooks.checkpoint.interval = interval
    cfg.default_hooks.logger.interval = 10
