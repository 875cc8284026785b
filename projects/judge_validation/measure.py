"""One run of the validation: train, and measure features with and without labels on the way."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.registry import RUNNERS

import ttl_mm.engine  # noqa: F401
from projects.judge_validation.plan import Job
from ttl_mm.config import read_config
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.evaluation.forward import evaluating, images_of, pooled
from ttl_mm.evaluation.probe import KNN, LINEAR, Probe
from ttl_mm.evaluation.view_features import spread_indices, view_features
from ttl_mm.gauges.label_free import judge_views, nearest_neighbors, shared_neighbors
from ttl_mm.registry import DATASETS

ROOT = Path(__file__).resolve().parents[2]
SHARE_OF_IMAGES = 0.25  # 2,500 of cifar10_mini, 24 steps an epoch
IMAGES, DRAWS, NEIGHBORS = 256, 2, 10
LABELED = 2500  # images that the classifiers learn from
LOOK = 12  # steps between two looks at the projections


class Labeled:
    """The labeled images in memory: read once for all runs."""

    def __init__(self, data: Path) -> None:
        folders = read_config(ROOT / Job('', 'simclr').config).default_hooks.probe
        parts = {}
        for name in ('train', 'test'):
            folder = {**folders[name], 'data_root': str(data / 'cifar10_mini' / name)}
            parts[name] = DATASETS.build(folder)
        self.probe = Probe(**parts, linear=True, max_train=LABELED)
        self.images, self.labels = {}, {}
        for name, part in parts.items():
            samples = [part[i] for i in self.probe.chosen(name)]
            self.images[name] = torch.stack([sample['inputs'] for sample in samples])
            self.labels[name] = torch.cat([sample['data_samples'].gt_label for sample in samples])

    def accuracies(self, model: Any) -> dict[str, float]:
        """KNN and linear top-1 in percent, as :class:`Probe` measures them."""
        features = {}
        with evaluating(model):
            for name, images in self.images.items():
                batches = ({'inputs': some, 'data_samples': None} for some in images.split(250))
                inputs = (images_of(model.data_preprocessor, batch) for batch in batches)
                rows = [pooled(model.backbone(batch))[-1] for batch in inputs]
                features[name] = torch.cat(rows)
        truth = self.labels['test']
        found = self.probe.classify(features['train'], self.labels['train'], features['test'])
        right = {name: (labels == truth).double().mean().item() for name, labels in found.items()}
        return {'knn': 100 * right[KNN], 'linear': 100 * right[LINEAR]}


class MeasureHook(Hook):
    """Every measure and both accuracies before training and after each epoch."""

    priority = 72

    def __init__(self, labeled: Labeled) -> None:
        self.labeled = labeled
        self.rows: list[dict[str, Any]] = []
        self._neighbors = None

    def before_train(self, runner) -> None:
        self.measure(runner, 0)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done, length = runner.iter + 1, len(runner.train_dataloader)
        if done % length == 0:
            self.measure(runner, done)

    def measure(self, runner, step: int) -> None:
        rng = get_rng_state()
        samples = runner.train_dataloader.dataset
        indices = spread_indices(IMAGES, len(samples))
        views = view_features(runner.model, samples, indices, DRAWS, runner.seed)  # (N, Q, D)
        found = judge_views(views, NEIGHBORS)
        before, self._neighbors = self._neighbors, nearest_neighbors(views[:, 0], NEIGHBORS)
        if before is not None:
            found['stability'] = shared_neighbors(before, self._neighbors)
        accuracies = self.labeled.accuracies(runner.model)
        set_rng_state(rng)
        logged = runner.message_hub.log_scalars
        for name in ('loss', 'spread', 'rank'):
            if f'train/{name}' in logged:
                found[f'train_{name}'] = float(logged[f'train/{name}'].mean(LOOK))
        self.rows.append({'step': step, **_rounded({**accuracies, **found})})


def _rounded(values: dict[str, float]) -> dict[str, float | None]:
    return {k: float(f'{v:.6g}') if math.isfinite(v) else None for k, v in values.items()}


def config_of(job: Job, data: Path):
    """The config of a run, cut to a few epochs on a part of the images."""
    cfg = read_config(ROOT / job.config)
    images = data / 'cifar10_mini'
    loader = cfg.train_dataloader
    loader.dataset.data_root = str(images / 'train')
    (views,) = (step.views for step in loader.dataset.pipeline if 'views' in step)
    for view in views:
        view.update(job.view)
    loader.dataset = {
        'type': 'ttl_mm.Fraction', 'dataset': loader.dataset, 'fraction': SHARE_OF_IMAGES,
    }  # fmt: skip
    cfg.merge_from_dict({f'model.{key}': value for key, value in job.model.items()})
    cfg.optim_wrapper.optimizer.lr = job.lr
    cfg.train_cfg.max_epochs = job.epochs
    cfg.param_scheduler[1].update(T_max=job.epochs, end=job.epochs)
    hooks = cfg.default_hooks
    if 'target_update' in hooks:
        hooks.target_update.horizon_epochs = job.epochs
    hooks.update(gauges=None, probe=None, checkpoint=None)
    hooks.collapse.interval = LOOK
    cfg.randomness, cfg.log_level = {'seed': job.seed}, 'ERROR'
    return cfg


def train_and_measure(job: Job, data: Path, labeled: Labeled) -> dict[str, Any]:
    """Do the run; what was measured, and how it failed if it did."""
    cfg = config_of(job, data)
    hook = MeasureHook(labeled)
    failed = None
    with tempfile.TemporaryDirectory() as work_dir:
        cfg.work_dir = work_dir
        runner = RUNNERS.build(cfg)
        runner.register_hook(hook)
        try:
            runner.train()
        except TrainingStopped as end:  # it diverged, which is a result as well
            failed = str(end)
    settings = {'method': job.method, 'lr': job.lr, 'seed': job.seed}
    return {**settings, 'failed': failed, 'steps': runner.max_iters, 'rows': hook.rows}
