"""The config of ``ttl segment train``: the recipe of projects/segmentation, fitted to the data."""

import copy
from functools import cache
from pathlib import Path

from mmengine.config import Config

from ttl_mm.config import read_config
from ttl_mm.files.recipes import recipes_root
from ttl_mm.finetuning.resnet import Backbone
from ttl_mm.finetuning.schedule import Schedule, fitted_epochs, set_epochs, set_workers

RECIPE = 'projects/segmentation/configs/fcn_r50_voc_50e.py'
SIZE = 513  # edge of the patches in the recipe
STEPS = 400  # at least, however few the images are
VALIDATIONS = 10  # of a run


@cache
def _read() -> Config:
    return read_config(recipes_root() / RECIPE)


def model_config(backbone: Backbone, classes: int, random: bool = True) -> Config:
    """The recipe with the network for this backbone and so many classes."""
    cfg = copy.deepcopy(_read())
    net = cfg.model
    net.data_preprocessor.update(mean=list(backbone.mean), std=list(backbone.std))
    kept = {key: net.backbone[key] for key in ('strides', 'dilations', 'out_indices', 'norm_cfg')}
    net.backbone = {**backbone.config, **kept, 'init_cfg': backbone.start(random)}
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
        set_workers(loader, schedule.workers)
    cfg.train_dataloader.batch_size = batch
    cfg.train_dataloader.dataset.pipeline[1].size = size
    cfg.val_dataloader.dataset.pipeline = plain_pipeline(size)
    cfg.test_dataloader = cfg.val_dataloader
    rate = cfg.optim_wrapper.optimizer.lr if schedule.rate is None else schedule.rate
    cfg.optim_wrapper.optimizer.lr = rate * batch / cfg.auto_scale_lr.base_batch_size
    cfg.auto_scale_lr.base_batch_size = batch
    fitted = fitted_epochs(cfg.train_cfg.max_epochs, images // batch, STEPS)
    set_epochs(cfg, schedule.epochs or fitted, VALIDATIONS)
    cfg.default_hooks.logger.interval = 10
    cfg.randomness = {'seed': seed}
    return cfg


def plain_pipeline(size: int) -> list[dict]:
    """Images of a short side, as every network here is tested."""
    return [
        {'type': 'ttl_mm.LoadMasked'},
        {'type': 'ttl_mm.ShortSide', 'size': size},
        {'type': 'ttl_mm.PackMasked'},
    ]
