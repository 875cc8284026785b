"""A recipe cut down to seconds: its own network, loss, views and optimizer, on made-up images."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from mmengine.config import Config

STEPS = 10
INFINITY_AT = 3  # the iteration whose gradient is made infinite, in a run of its own
EPOCH = 5  # batches, so that an epoch ends within the run
DISTINCT = 64  # images that are really different; the others are links to them
_UNUSED = (
    'val_dataloader', 'val_cfg', 'val_evaluator', 'test_dataloader', 'test_cfg', 'test_evaluator',
    'param_scheduler', 'load_from',
)  # fmt: skip
_HOOKS_LEFT_OUT = {'gauges', 'probe', 'judge', 'result', 'frozen', 'collapse'}


def small_recipe(cfg: Config, images: Path, batch: int, ranks: int, workers: int) -> Config:
    """``cfg`` for ``STEPS`` iterations on a folder of images.

    What remains of it: model, views, loss, optimizer, precision, wrapper, compilation. The learning
    rate is scaled to the images per step, at most two batches are accumulated, and there is neither
    warm-up nor validation.
    """
    cfg = deepcopy(cfg)
    for key in _UNUSED:
        cfg[key] = None
    cfg.resume = False
    accumulation = cfg.optim_wrapper.get('accumulative_counts', 1)
    base = (cfg.get('auto_scale_lr') or {}).get('base_batch_size')
    cfg.optim_wrapper.accumulative_counts = kept = min(accumulation, 2)
    if base:
        share = batch * ranks * kept / (base * accumulation)
        cfg.optim_wrapper.optimizer.lr *= share
    cfg.auto_scale_lr = None
    cfg.train_cfg = dict(type='ttl_mm.IterLoop', max_iters=STEPS)
    cfg.train_dataloader.update(
        batch_size=batch,
        num_workers=workers,
        persistent_workers=workers > 0,
        drop_last=True,
    )
    cfg.train_dataloader.dataset = small_dataset(cfg.train_dataloader.dataset, images)
    hooks: dict[str, Any] = dict(cfg.get('default_hooks') or {})
    hooks.update(dict.fromkeys(hooks.keys() & _HOOKS_LEFT_OUT))
    hooks['logger'] = dict(type='LoggerHook', interval=1)
    hooks['checkpoint'] = dict(type='ttl_mm.CheckpointHook', interval=STEPS, by_epoch=False)
    cfg.default_hooks = hooks
    cfg.custom_imports = with_hooks_of_the_test(cfg.get('custom_imports'))
    cfg.merge_from_dict({'env_cfg.dist_cfg.timeout': 60})
    cfg.visualizer = dict(type='Visualizer', vis_backends=[])
    cfg.randomness = dict(seed=0)
    cfg.log_level = 'INFO'
    return cfg


def highest_rank(model: dict[str, Any]) -> int:
    """The highest rank of a deputy that a model asks for by number; 0 if it asks for none."""
    deputy = (model.get('head') or {}).get('deputy', 0)
    ranks = deputy if isinstance(deputy, (list, tuple)) else [deputy]
    return max(rank if isinstance(rank, int) else 0 for rank in ranks)


def small_dataset(dataset: dict[str, Any], images: Path) -> dict[str, Any]:
    """The folder of images with the views of ``dataset``; digits come with a package and stay."""
    while 'pipeline' not in dataset and 'dataset' in dataset:
        dataset = dataset['dataset']  # a wrapper, which takes a part of the images
    if dataset.get('type') == 'ttl_mm.Digits':
        return dataset
    pipeline = list(dataset.get('pipeline') or [])
    loads = any(word in str(step['type']) for step in pipeline for word in ('Load', 'RandomViews'))
    if not loads:  # the dataset gave arrays, as CIFAR-10 does
        pipeline = [dict(type='ttl_mm.LoadImage'), *pipeline]
    return dict(
        type='ttl_mm.ImageFolder', data_root=str(images), pipeline=pipeline, with_label=True
    )


def with_hooks_of_the_test(custom_imports: dict | None) -> dict[str, Any]:
    """A recipe's ``custom_imports`` with the module of the hooks that measure."""
    given = dict(custom_imports or {})
    modules = given.get('imports') or []
    modules = [modules] if isinstance(modules, str) else list(modules)
    return {**given, 'imports': [*modules, 'ttl_mm.selftest.hooks']}


def make_images(folder: Path, number: int) -> Path:
    """Colored JPEG files of 500 x 375 in two folders.

    They differ in color and large shapes: images that are all alike, such as noise, would make
    the gradient of an untrained network so large that no precision computes it.
    """
    rng = np.random.default_rng(0)
    for i in range(number):
        path = folder / f'class_{i % 2}' / f'{i:05}.jpg'
        path.parent.mkdir(parents=True, exist_ok=True)
        if i < DISTINCT:
            shapes = rng.integers(0, 256, (4, 5, 3)) * 0.6 + rng.integers(0, 103, 3)
            image = cv2.resize(shapes.astype(np.uint8), (500, 375), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(path), image)
        else:
            first = i % DISTINCT
            os.link(folder / f'class_{first % 2}' / f'{first:05}.jpg', path)
    return folder
