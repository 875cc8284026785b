"""Pseudo labels for DeepCluster and ODC."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from mmengine.dataset import default_collate
from mmengine.dist import all_gather, broadcast, get_dist_info
from mmengine.hooks import Hook
from mmengine.structures import InstanceData
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from ttl_mm.compat.mmengine_private import initialize_again
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.engine.state.signs_of_life import report_life
from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import evaluating, images_of
from ttl_mm.registry import DATASETS, HOOKS
from ttl_mm.tasks.mmselfsup.kmeans import kmeans, whiten


@HOOKS.register_module()
class ClusterHook(Hook):
    """Cluster the features of all training images, and use the cluster numbers as labels.

    Replaces mmselfsup's DeepClusterHook, which needs faiss on a GPU and a process group, and whose
    labels are lost by persistent workers and by a resumed run. This hook puts the labels into each
    batch, by ``sample_idx``, so it works with any dataset. It clusters before an epoch and then
    initializes the head again, because the new clusters are numbered differently.

    Args:
        dataset: config of the training images in the same order, without augmentation; its
            pipeline ends in PackInputs.
        num_clusters: number of clusters.
        interval: epochs between two clusterings; None clusters once, at the start, after which a
            model with a memory bank (ODC) updates the labels itself.
        pca_dim: whiten the features and reduce them to this dimension; None leaves them as is.
        uniform: sample all clusters equally often; needs mmselfsup's DeepClusterSampler.
        reweight: weight a cluster of n images by n^-0.5 in the loss.
        batch_size: images per forward pass.
        num_workers: processes that load images.
    """

    priority = 'HIGH'

    def __init__(
        self,
        dataset: dict,
        num_clusters: int | None = None,
        interval: int | None = 1,
        pca_dim: int | None = None,
        uniform: bool = False,
        reweight: bool = False,
        batch_size: int = 128,
        num_workers: int = 0,
        k: int | None = None,
    ) -> None:
        if num_clusters is None:
            hint = 'k is now called num_clusters' if k else 'ClusterHook needs num_clusters'
            raise UserError(f'{hint}: set num_clusters={k or "..."} in the config of the hook.')
        if interval is not None and interval < 1:
            raise UserError(f'interval={interval}: use at least 1, or None to cluster once.')
        self.config = dataset
        self.num_clusters, self.interval, self.pca_dim = num_clusters, interval, pca_dim
        self.uniform, self.reweight = uniform, reweight
        self.loader: dict[str, Any] = {'batch_size': batch_size, 'num_workers': num_workers}
        self.labels = torch.zeros(0, dtype=torch.long)  # (images,) after the first clustering

    def state_dict(self) -> dict:
        return {'labels': self.labels}

    def load_state_dict(self, state: Mapping) -> None:
        self.labels = state['labels']

    def before_train(self, runner) -> None:
        if self.interval is not None and not runner.train_loop.counts_epochs:
            raise UserError(
                f'interval={self.interval} counts epochs, but this run counts iterations: use '
                'train_cfg=dict(by_epoch=True, max_epochs=...).'
            )
        rng = get_rng_state()
        self.dataset = DATASETS.build(self.config)
        set_rng_state(rng)
        found, wanted = len(self.dataset), len(runner.train_dataloader.dataset)
        if found != wanted:
            raise UserError(
                f'the dataset to cluster has {found} images and the training data {wanted}: give '
                'both the same data_root.'
            )

    def before_train_epoch(self, runner) -> None:
        """Cluster if it is due, unless a run is resumed in the middle of the epoch."""
        rng = get_rng_state()
        epoch = runner.epoch
        starts = runner.iter == epoch * len(runner.train_dataloader)
        if starts and (epoch == 0 if self.interval is None else epoch % self.interval == 0):
            self.cluster(runner)
        if self.uniform:
            sampler = runner.train_dataloader.batch_sampler.sampler
            sampler.set_epoch(epoch)
            # seeds NumPy's global generator with the epoch
            sampler.set_uniform_indices(self.labels.tolist(), self.num_clusters)
        set_rng_state(rng)

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        """Put the labels into the batch."""
        for sample in data_batch['data_samples']:
            label = self.labels[sample.sample_idx.value]  # (1,)
            sample.pseudo_label = InstanceData(clustering_label=label)

    def cluster(self, runner) -> None:
        """Label all images and prepare the model for the new labels; called on every rank."""
        model: Any = unwrap_model(runner.model)
        device = next(model.parameters()).device
        seed = runner.seed + runner.epoch
        alive = partial(report_life, runner)
        features = self.features(model, alive)
        self.labels = torch.zeros(len(self.dataset), dtype=torch.long)
        if features is not None:
            points = whiten(features, self.pca_dim, device)
            alive()
            self.labels = kmeans(points, self.num_clusters, seed, alive=alive).cpu()
        broadcast(self.labels)
        sizes = self.labels.bincount(minlength=self.num_clusters)
        runner.logger.info(f'{self.num_clusters} clusters of {sizes.min()} to {sizes.max()} images')

        torch.manual_seed(seed)  # the same head on every rank; the caller restores the generators
        initialize_again(model.head)
        if self.reweight:
            weight = sizes.clamp(min=1).to(device).rsqrt()
            model.loss_weight.copy_(weight / weight.sum())
        if hasattr(model, 'memory_bank'):
            model.memory_bank.init_memory(features, self.labels)

    def features(self, model: Any, alive: Callable[[], None]) -> Tensor | None:
        """Output of the neck for every image in order, (images, D); None except on rank 0."""
        rank, world = get_dist_info()
        count = len(self.dataset)
        # rank r takes the images r, r + world, ...; the first images pad the last round
        share = [i % count for i in range(rank, -(-count // world) * world, world)]
        batches = DataLoader(Subset(self.dataset, share), collate_fn=default_collate, **self.loader)
        found, done = torch.empty(0), 0  # (images, D), filled as the batches come
        with evaluating(model):
            for batch in batches:
                images = images_of(model.data_preprocessor, batch)
                rows = model.neck(model.backbone(images))[-1].flatten(1).float()
                rows = torch.stack(all_gather(rows), dim=1).flatten(0, 1)
                if rank == 0:
                    found = found if done else torch.empty(count, rows.shape[1])
                    found[done : done + len(rows)] = rows[: count - done].cpu()
                    done += len(rows)
                alive()
        return found if rank == 0 else None
