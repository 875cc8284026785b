"""ODC's memory and hook on any device and any number of processes."""

from types import SimpleNamespace

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
    """A feature and a cluster for every image, and the centroids, updated while training.

    The rules are those of mmselfsup's ODCMemory, which needs CUDA and a process group, and loses
    its banks on resume. Here they are buffers, the same on every rank.

    Args:
        length: number of images.
        feat_dim: dimension of their features.
        momentum: share of the new feature of an image in its updated one.
        num_classes: number of clusters.
        min_cluster: a smaller cluster is dissolved, and the largest is split in its place.
    """

    def __init__(
        self, length: int, feat_dim: int, momentum: float, num_classes: int, min_cluster: int
    ) -> None:
        super().__init__()
        if num_classes * min_cluster > length:
            raise UserError(
                f'{length} images cannot make {num_classes} clusters of at least {min_cluster}: '
                'lower num_classes or min_cluster.'
            )
        self.momentum = momentum
        self.num_classes = num_classes
        self.min_cluster = min_cluster
        self.register_buffer('feature_bank', torch.zeros(length, feat_dim))
        self.register_buffer('label_bank', torch.zeros(length, dtype=torch.long))
        self.register_buffer('centroids', torch.zeros(num_classes, feat_dim))

    def init_memory(self, features: Tensor | None, labels: Tensor) -> None:
        """Start from features (N, D), which only rank 0 needs to have, and clusters (N,)."""
        self.label_bank.copy_(labels)
        if features is not None:
            self.feature_bank.copy_(F.normalize(features, dim=1))
        broadcast(self.feature_bank)
        self.update_centroids_memory()

    def update_samples_memory(self, idx: Tensor, feature: Tensor) -> Tensor:
        """Move the features of some images, find their clusters; the share that changed them."""
        idx, feature = torch.cat(all_gather(idx)), torch.cat(all_gather(feature))
        old, new = self.feature_bank[idx], F.normalize(feature, dim=1)
        self.feature_bank[idx] = F.normalize((1 - self.momentum) * old + self.momentum * new, dim=1)
        rows = self.feature_bank[idx]  # an image that was drawn twice has one row here
        broadcast(rows)
        self.feature_bank[idx] = rows
        labels = (rows @ self.centroids.T).argmax(dim=1)
        changed = (labels != self.label_bank[idx]).float().mean()
        self.label_bank[idx] = labels
        return changed

    def update_centroids_memory(self) -> None:
        """Every centroid is the mean of its images; one without any stays where it is."""
        sizes = self.label_bank.bincount(minlength=self.num_classes)
        new = means(self.feature_bank, self.label_bank, self.num_classes)
        self.centroids.copy_(torch.where(sizes[:, None] > 0, new, self.centroids))
        broadcast(self.centroids)

    def deal_with_small_clusters(self) -> None:
        """Hand the images of small clusters to their neighbours, and split the largest instead."""
        sizes = self.label_bank.bincount(minlength=self.num_classes)
        if not (sizes < self.min_cluster).any():
            return
        small = (sizes < self.min_cluster).nonzero().flatten()
        large = (sizes >= self.min_cluster).nonzero().flatten()
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
    """mmselfsup's hook, for models in a distributed wrapper and others, resumed and others.

    Args:
        centroids_update_interval: iterations between two updates of the centroids.
        deal_with_small_clusters_interval: iterations between two searches for small clusters.
        evaluate_interval: iterations between two lines about the clusters in the log.
    """

    def __init__(
        self,
        centroids_update_interval: int = 10,
        deal_with_small_clusters_interval: int = 1,
        evaluate_interval: int = 50,
    ) -> None:
        super().__init__(
            centroids_update_interval,
            deal_with_small_clusters_interval,
            evaluate_interval,
            reweight=True,  # which that hook does in any case
            reweight_pow=0.5,
        )

    def before_train(self, runner) -> None:
        if runner.iter > 0:  # the loss forgets its weights on resume, the model does not
            model = unwrap_model(runner.model)
            model.head.loss.class_weight = model.loss_weight

    def after_train_iter(self, runner, *args, **kwargs) -> None:
        super().after_train_iter(_Wrapped(runner), *args, **kwargs)

    def after_train_epoch(self, runner) -> None:
        super().after_train_epoch(_Wrapped(runner))


class _Wrapped:
    """A runner whose model is found at ``model.module``, as that hook expects."""

    def __init__(self, runner) -> None:
        self._runner = runner
        self.model = SimpleNamespace(module=unwrap_model(runner.model))

    def __getattr__(self, name: str):
        return getattr(self._runner, name)
