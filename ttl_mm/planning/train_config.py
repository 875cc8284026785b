"""A plan of ``ttl train`` as a config: the recipe, with the numbers of the plan."""

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ttl_mm.config import read_config
from ttl_mm.datasets.bands import Measured
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.files.recipes import recipes_root
from ttl_mm.files.stores.url import as_given
from ttl_mm.models.backbones import Backbone, find_backbone
from ttl_mm.models.view_sizes import ViewSizes
from ttl_mm.planning.network import set_network
from ttl_mm.planning.optimizers import set_optimizer
from ttl_mm.planning.train_plan import KEPT_CHECKPOINTS, TrainPlan

#: what `ttl train` adapts; to change the method of `ttl train`, change this name
RECIPE = 'own_images/ttl_soft_r18_1xb104_100e.py'
#: its step is a share of the norm of the weights, which a larger batch does not raise
MUON = 'ttl_mm.Muon'
WARM_UP = 0.05  # of the run
LINES = 200  # of the log, at most every 50 steps
LOOKS = 20  # at the rank of the projections, at most every 50 steps


def read_train_recipe() -> Config:
    """The recipe that ``ttl train`` adapts."""
    return read_config(recipes_root() / 'configs' / RECIPE)


def train_config(
    plan: TrainPlan,
    recipe: Config,
    data_root: Path,
    list_file: Path,
    init: Path | None = None,
    labeled: dict[str, dict] | None = None,
) -> Config:
    """The recipe, adapted to a plan.

    Args:
        plan: With its number of steps.
        recipe: A truncated-triplet recipe, see :func:`read_train_recipe`.
        data_root: Folder of the images.
        list_file: Their names.
        init: Weights of the backbone to start from.
        labeled: ``data_root`` and ``list_file`` of the splits 'train' and 'test' for kNN.
    """
    cfg = deepcopy(recipe)
    backbone = find_backbone(plan.backbone)
    _set_network(cfg.model, plan, backbone, init)
    _set_data(cfg.train_dataloader, plan, data_root, list_file)
    _set_size(cfg, plan, backbone)
    if plan.pixels is not None:
        set_pixels(cfg, plan.pixels)
    if plan.edge is not None:
        _views_step(cfg).in_memory = plan.edge
    base = cfg.auto_scale_lr.base_batch_size
    set_optimizer(cfg.optim_wrapper, backbone.norm, base)
    optimizer, share = cfg.optim_wrapper.optimizer, plan.batch * plan.ranks / base
    optimizer.lr *= min(1.0, share) if optimizer.type == MUON else share
    cfg.auto_scale_lr.base_batch_size = plan.batch * plan.ranks
    warm_up = max(1, round(WARM_UP * plan.steps))
    cfg.param_scheduler = [
        {'type': 'LinearLR', 'start_factor': 0.01, 'end': warm_up, 'by_epoch': False},
        {'type': 'CosineAnnealingLR', 'T_max': plan.steps, 'end': plan.steps, 'by_epoch': False},
    ]
    _set_length(cfg, plan)
    hooks = cfg.default_hooks
    hooks.bad_images.max_share = plan.max_bad_share
    hooks.collapse.interval = max(1, min(50, plan.steps // LOOKS))
    hooks.logger.interval = max(1, min(50, plan.steps // LINES, plan.steps_per_epoch))
    if labeled:
        hooks.probe = _probe(plan, labeled)
    return cfg


def _set_network(model: Any, plan: TrainPlan, backbone: Backbone, init: Path | None) -> None:
    set_network(model, backbone, plan.size)
    if init is not None:
        model.backbone.init_cfg = {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': str(init)}
    deputy = model.head.deputy
    if isinstance(deputy, (list, tuple)):  # ranks that a smaller batch does not have
        most = num_negatives(model.head, plan.batch)
        model.head.deputy = tuple(min(rank, most) for rank in deputy)


def num_negatives(head: Any, batch: int) -> int:
    """Negatives of an image in a batch, by the config of the head."""
    return (batch - 1) * (2 if head.get('both_views') else 1)


def _set_data(loader: Any, plan: TrainPlan, data_root: Path, list_file: Path) -> None:
    loader.batch_size = plan.batch
    loader.num_workers = plan.workers
    loader.dataset = {
        'type': 'ttl_mm.ImageFolder',
        'data_root': as_given(data_root),
        'list_file': str(list_file),
        'pipeline': loader.dataset.pipeline,
    }


def _set_size(cfg: Config, plan: TrainPlan, backbone: Backbone) -> None:
    """Views of this size; smaller crops, growing views and rescaling keep their share of it.

    All are rounded to sizes that the network takes; one that is built for a single size gets no
    other.
    """
    views = _views(cfg)
    if plan.growth is not None:
        full, end = _full_size(views), cfg.train_cfg.max_epochs
        for view in views:
            first, *later = [(start * end, share * full) for start, share in plan.growth]
            view.size, view.later_sizes = first[1], tuple(later)
    scale = plan.size / _full_size(views)
    longer = plan.epochs / cfg.train_cfg.max_epochs
    whole = round if plan.growth is None else math.ceil  # an epoch begun at the end has no share
    allowed = ViewSizes(plan.size, only=plan.size) if backbone.one_size else backbone.sizes

    def scaled(edge: int) -> int:
        return allowed.nearest(round(scale * edge))

    for view in views:
        # of sizes that begin in the same epoch the last counts: in a trial, the largest
        sizes = {whole(longer * epoch): scaled(size) for epoch, size in _sizes(view)}
        view.size = sizes.pop(0)
        view.later_sizes = tuple(sizes.items())
    for name in ('online_sizes', 'target_sizes'):
        if edges := cfg.model.get(name):  # the model rounds them again, or does without and says so
            cfg.model[name] = tuple(scaled(edge) for edge in edges)


def set_pixels(cfg: Config, pixels: Measured) -> None:
    """Let a config train on images beyond 8-bit RGB: its views, its network, its normalization."""
    bands = pixels.bands
    _views_step(cfg).bands = bands.config()
    cfg.model.data_preprocessor = {
        'type': 'ttl_mm.BandsPreprocessor', 'mean': pixels.mean, 'std': pixels.std,
        'to_rgb': bands.channels == 3,
    }  # fmt: skip
    if bands.channels != 3:
        cfg.model.backbone.in_channels = bands.channels


def _views_step(cfg: Config) -> Any:
    (step,) = (step for step in cfg.train_dataloader.dataset.pipeline if 'views' in step)
    return step


def _views(cfg: Config) -> list[Any]:
    return _views_step(cfg).views


def _full_size(views: list[Any]) -> int:
    return max(size for view in views for _, size in _sizes(view))


def _sizes(view: Any) -> list[tuple[int, int]]:
    """Pairs (epoch, size): from which epoch on a view has which size."""
    return [(0, view.size), *view.get('later_sizes', ())]


def pixel_share(recipe: Config, backbone: Backbone) -> float:
    """Pixels of the first view over the whole run, as a share of those at its largest size.

    >>> pixel_share(read_train_recipe(), find_backbone('resnet18'))
    1.0
    """
    if backbone.one_size:
        return 1.0
    sizes, end = _sizes(_views(recipe)[0]), recipe.train_cfg.max_epochs
    largest = max(size for _, size in sizes)
    ends = [*(epoch for epoch, _ in sizes[1:]), end]
    pixels = sum((stop - start) * size**2 for (start, size), stop in zip(sizes, ends))
    return pixels / (end * largest**2)


def _set_length(cfg: Config, plan: TrainPlan) -> None:
    hooks, per_epoch = cfg.default_hooks, plan.steps_per_epoch
    save = {'type': 'ttl_mm.CheckpointHook', 'max_keep_ckpts': KEPT_CHECKPOINTS}
    if plan.limit is None:
        cfg.train_cfg = {'type': 'ttl_mm.EpochLoop', 'max_epochs': plan.steps // per_epoch}
        hooks.checkpoint = {**save, 'interval': plan.save_every // per_epoch}
    else:
        cfg.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': plan.steps}
        hooks.time_limit = {'type': 'ttl_mm.TimeLimitHook', 'seconds': round(plan.limit, 1)}
        hooks.checkpoint = {**save, 'interval': plan.save_every, 'by_epoch': False}
    if 'target_update' in hooks:
        hooks.target_update = {'type': hooks.target_update.type, 'horizon_iters': plan.steps}


def _probe(plan: TrainPlan, labeled: dict[str, dict]) -> dict:
    bands = plan.pixels.bands.config() if plan.pixels else None
    folders = {
        name: {
            'type': 'ttl_mm.ImageFolder',
            **split,
            'with_label': True,
            'pipeline': evaluation_pipeline(plan.size, bands),
        }
        for name, split in labeled.items()
    }
    return {
        'type': 'ttl_mm.ProbeHook', **folders, 'interval': plan.probe_every, 'max_train': 5000,
    }  # fmt: skip


def write_train_config(cfg: Config, path: Path, comment: str) -> None:
    """Write a whole config that depends on no other file but the lists it names."""
    if path.exists():
        raise UserError(f'{path} exists: name another file with --config-out, or delete it.')
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ''.join(f'# {line}'.rstrip() + '\n' for line in comment.splitlines())
    partial = path.with_name(f'{path.name}.partial')
    partial.write_text(lines + cfg.pretty_text)
    partial.replace(path)
