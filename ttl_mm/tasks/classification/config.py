"""The config of a run: the recipe in projects/classification, fitted to data and network."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ttl_mm.config import read_config
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.files.recipes import recipes_root
from ttl_mm.finetuning.schedule import Schedule, fitted_epochs, set_epochs, set_workers
from ttl_mm.tasks.classification.labels import Split
from ttl_mm.tasks.classification.source import Source

RECIPES = {
    False: 'projects/classification/configs/finetune_r50_1xb64_20e.py',
    True: 'projects/classification/configs/finetune_frozen_r50_1xb64_20e.py',
}
STEPS = 200  # at least, however few the images are
VALIDATIONS = 20  # of a run


@dataclass(frozen=True)
class Training(Schedule):
    """What of the training can be chosen; ``rate`` is that of the backbone for any batch size."""

    batch_size: int = 64
    frozen: bool = False  # train the classifier alone


def classifier_config(
    source: Source,
    classes: int,
    splits: dict[str, Split],
    folder: Path,
    training: Training | None = None,
    seed: int = 0,
    random: bool = False,
) -> Config:
    """A whole config of one run; the lists of images that it names are written into ``folder``.

    Args:
        source: The backbone to start from.
        classes: How many there are.
        splits: 'train' and 'val', both with images of every class.
        folder: For the lists; made where it does not exist.
        training: Choices of the user.
        seed: Of first weights of the classifier, order of images and augmentation.
        random: Start with random weights in the place of those of ``source``.
    """
    training = training or Training()
    cfg = read_config(recipes_root() / RECIPES[training.frozen])
    _set_model(cfg.model, source, classes, random)
    images = len(splits['train'])
    batch = min(training.batch_size, images)
    _set_data(cfg, splits, folder, source.size, batch, training.workers)
    fitted = fitted_epochs(cfg.train_cfg.max_epochs, images // batch, STEPS)
    set_epochs(cfg, training.epochs or fitted, VALIDATIONS)
    if training.rate is not None:
        cfg.optim_wrapper.optimizer.lr = training.rate
    cfg.auto_scale_lr.base_batch_size = batch
    cfg.randomness = {'seed': seed}
    return cfg


def _set_model(model: Any, source: Source, classes: int, random: bool) -> None:
    init = {} if random else {
        'init_cfg': {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': source.weights}
    }  # fmt: skip
    model.backbone = {**source.backbone, **init}
    model.neck[1].num_features = source.width
    model.head.update(num_classes=classes, in_channels=source.width)
    model.data_preprocessor.update(mean=list(source.mean), std=list(source.std))


def _set_data(
    cfg: Config, splits: dict[str, Split], folder: Path, size: int, batch: int, workers: int
) -> None:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, split in splits.items():
        list_file = folder / f'{name}.txt'
        write_name_list(list_file, split.names)
        loader = cfg[f'{name}_dataloader']
        loader.dataset.update(data_root=str(split.root), list_file=str(list_file))
        set_workers(loader, workers)
    for step in cfg.train_dataloader.dataset.pipeline:
        if step.type == 'RandomResizedCrop':
            step.scale = size
    cfg.train_dataloader.batch_size = batch
    cfg.default_hooks.linear_start.dataset = {
        **cfg.train_dataloader.dataset, 'pipeline': evaluation_pipeline(size)
    }  # fmt: skip
    cfg.val_dataloader.dataset.pipeline = evaluation_pipeline(size)
    cfg.test_dataloader = cfg.val_dataloader
