"""Memory and hook of ODC, for any device and number of processes."""

from types import SimpleNamespace
from typing import Any

import mmselfsup.engine.hooks
import torch
import torch.nn.functional as F
from mmengine.dist import all_gather, broadcast
from mmengine.model import BaseModule
from torch import Tensor

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS, MODELS
from ttl_mm.tasks.mmselfsup.kmeans import kmeans, means


@MODELS.register_module()
class ODCMemory(BaseModule):
    """Features and clusters of all images, and the centroids, updated during training.

    It follows the rules of mmselfsup's ODCMemory, which needs CUDA and a process group and loses
    its banks when a run is resumed. Here they are buffers, equal on all ranks.

    Args:
        length: number of images.
        feat_dim: dimension of the features.
        momentum: weight of an image's new feature in its stored one.
        num_classes: number of clusters.
        min_cluster: smaller clusters are dissolved, and the largest one is split instead.
    """

    def __init__(
        self, length: int, feat_dim: int, momentum: float, num_classes: int, min_cluster: int
    ) -> None:
        super().__init__()
        if num_classes * min_cluster > length:
            raise UserError(
                f'{length} images cannot form {num_classes} clusters of at least {min_cluster}: '
                'lower num_classes or min_cluster.'
            )
        self.momentum, self.num_classes, self.min_cluster = momentum, num_classes, min_cluster
        self.register_buffer('feature_bank', torch.zeros(length, feat_dim))
        self.register_buffer('label_bank', torch.zeros(length, dtype=torch.long))
        self.register_buffer('centroids', torch.zeros(num_classes, feat_dim))

    def init_memory(self, features: Tensor | None, labels: Tensor) -> None:
        """Set features (N, D), needed only on rank 0, and clusters (N,)."""
        self.label_bank.copy_(labels)
        if features is not None:
            self.feature_bank.copy_(F.normalize(features, dim=1))
        broadcast(self.feature_bank)
        self.update_centroids_memory()

    def update_samples_memory(self, idx: Tensor, feature: Tensor) -> Tensor:
        """Update features and clusters of some images; return the share that changed clusters."""
        idx, feature = torch.cat(all_gather(idx)), torch.cat(all_gather(feature))
        old, new = self.feature_bank[idx], F.normalize(feature, dim=1)
        self.feature_bank[idx] = F.normalize((1 - self.momentum) * old + self.momentum * new, dim=1)
        rows = self.feature_bank[idx]  # equal rows for an image that occurs twice
        broadcast(rows)
        self.feature_bank[idx] = rows
        labels = (rows @ self.centroids.T).argmax(dim=1)
        changed = (labels != self.label_bank[idx]).float().mean()
        self.label_bank[idx] = labels
        return changed

    def update_centroids_memory(self) -> None:
        """Set every centroid to the mean of its images; that of an empty cluster stays."""
        sizes = self.label_bank.bincount(minlength=self.num_classes)
        new = means(self.feature_bank, self.label_bank, self.num_classes)
        self.centroids.copy_(torch.where(sizes[:, None] > 0, new, self.centroids))
        broadcast(self.centroids)

    def deal_with_small_clusters(self) -> None:
        """Move the images of small clusters to the nearest others; split the largest instead."""
        is_small = self.label_bank.bincount(minlength=self.num_classes) < self.min_cluster
        if not is_small.any():
            return
        small, large = (rows.nonzero().flatten() for rows in (is_small, ~is_small))
        homeless = torch.isin(self.label_bank, small).nonzero().flatten()
        nearest = (self.feature_bank[homeless] @ self.centroids[large].T).argmax(dim=1)
        self.label_bank[homeless] = large[nearest]
        for empty in small.tolist():
            self._split_largest(empty)
        broadcast(self.label_bank)
        broadcast(self.centroids)

    def _split_largest(self, empty: int) -> None:
        largest = self.label_bank.bincount(minlength=self.num_classes).argmax().item()
        members = (self.label_bank == largest).nonzero().flatten()
        features = self.feature_bank[members]
        halves = kmeans(features, 2)
        self.label_bank[members[halves == 1]] = empty
        self.centroids[[largest, empty]] = means(features, halves, 2)


@HOOKS.register_module()
class ODCHook(mmselfsup.engine.hooks.ODCHook):
    """mmselfsup's hook, also for resumed runs and for models without a distributed wrapper.

    Args:
        centroids_update_interval: iterations between updates of the centroids.
        deal_with_small_clusters_interval: iterations between searches for small clusters.
        evaluate_interval: iterations between log lines about the clusters.
    """

    def __init__(
        self,
        centroids_update_interval: int = 10,
        deal_with_small_clusters_interval: int = 1,
        evaluate_interval: int = 50,
    ) -> None:
        intervals = centroids_update_interval, deal_with_small_clusters_interval, evaluate_interval
        super().__init__(*intervals, reweight=True, reweight_pow=0.5)  # it reweights in any case

    def before_train(self, runner) -> None:
        if runner.iter > 0:  # a checkpoint has the weights of the model, not of the loss
            model: Any = unwrap_model(runner.model)
            model.head.loss.class_weight = model.loss_weight

    def after_train_iter(self, runner, *args, **kwargs) -> None:
        super().after_train_iter(_WrappedRunner(runner), *args, **kwargs)

    def after_train_epoch(self, runner) -> None:
        super().after_train_epoch(_WrappedRunner(runner))


class _WrappedRunner:
    """A runner with its model at ``model.module``, where mmselfsup's hook expects it."""

    def __init__(self, runner) -> None:
        self._runner = runner
        self.model = SimpleNamespace(module=unwrap_model(runner.model))

    def __getattr__(self, name: str):
        return getattr(self._runner, name)
