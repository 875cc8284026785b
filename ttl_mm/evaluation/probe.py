"""How good are the features of a backbone? Quick classifiers on two labeled datasets.

:class:`Probe` measures; :class:`ttl_mm.engine.ProbeHook` does so while a network trains, ``ttl zoo
measure`` and the report do it for a checkpoint.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mmengine.dataset import default_collate
from mmengine.dist import all_gather, all_reduce, get_dist_info
from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

import ttl_mm.datasets  # noqa: F401  imports those of mmpretrain, quietly
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import evaluating, extract_batches
from ttl_mm.evaluation.knn import knn_classify
from ttl_mm.evaluation.linear import linear_classify
from ttl_mm.evaluation.model import load_model
from ttl_mm.registry import DATASETS

KNN, LINEAR = 'probe/knn_top1', 'probe/linear_top1'
NAMES = {KNN: 'kNN top-1', LINEAR: 'linear probe top-1'}


class Probe:
    """Top-1 accuracy, in percent, of classifiers on a frozen backbone.

    ``probe/knn_top1``: weighted kNN on the pooled last stage. ``probe/linear_top1``, on request:
    logistic regression on the same features. Images are not augmented.

    Args:
        train: A labeled dataset or its config, with a pipeline that ends in PackInputs.
        test: The same, of the images to classify.
        neighbors: How many of them vote.
        temperature: The vote of a neighbor is exp(cosine / temperature).
        linear: Whether to fit a linear probe too.
        max_train: Use at most so many training images, evenly spread over the dataset.
        batch_size: Images per forward pass.
        num_workers: Processes that load images.
    """

    def __init__(
        self,
        train: Any,
        test: Any,
        neighbors: int = 20,
        temperature: float = 0.07,
        linear: bool = False,
        max_train: int | None = None,
        batch_size: int = 256,
        num_workers: int = 0,
    ) -> None:
        if batch_size < 1:
            raise UserError(f'batch_size={batch_size}: at least one image per forward pass.')
        self.datasets = {'train': train, 'test': test}
        self.neighbors, self.temperature, self.linear = neighbors, temperature, linear
        self.max_train = max_train
        self.loader: dict[str, Any] = {'batch_size': batch_size, 'num_workers': num_workers}

    def build_datasets(self) -> None:
        """Build the datasets that were given as configs."""
        for name, dataset in self.datasets.items():
            if isinstance(dataset, dict):
                self.datasets[name] = DATASETS.build(dataset)

    def measure(
        self, model: nn.Module, linear: bool | None = None, alive: Callable[[], None] = lambda: None
    ) -> dict[str, float]:
        """The accuracies of ``model.backbone``; all processes share the work and the result.

        ``alive`` is called again and again on the way, for whoever would miss a sign of life.
        """
        train, train_labels = self.features(model, 'train', alive=alive)
        test, test_labels = self.features(model, 'test', gather=False, alive=alive)
        predicted = self.classify(train, train_labels, test, linear, alive)
        correct = torch.stack([(labels == test_labels).sum() for labels in predicted.values()])
        all_reduce(correct)
        accuracies = 100 * correct.double() / len(self.datasets['test'])
        return dict(zip(predicted, accuracies.tolist()))

    def classify(
        self, train: Tensor, train_labels: Tensor, test: Tensor, linear: bool | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> dict[str, Tensor]:  # fmt: skip
        """Labels that each classifier gives to the test rows, (Q,), by the name of its figure."""
        predicted = {KNN: knn_classify(train, train_labels, test, self.neighbors, self.temperature)}
        if self.linear if linear is None else linear:
            predicted[LINEAR] = linear_classify(train, train_labels, test, alive=alive)
        return predicted

    def chosen(self, name: str) -> list[int]:
        """Indices of the images of 'train' or 'test' that are used."""
        count = len(self.datasets[name])
        if name == 'train' and self.max_train is not None and self.max_train < count:
            return [i * count // self.max_train for i in range(self.max_train)]
        return list(range(count))

    def features(
        self, model: Any, name: str, gather: bool = True, alive: Callable[[], None] = lambda: None
    ) -> tuple[Tensor, Tensor]:
        """Features (n, C) and labels (n,): of the whole set, or of this process's share."""
        chosen = self.chosen(name)
        rank, world = get_dist_info()
        share = Subset(self.datasets[name], chosen[rank::world])
        batches = DataLoader(share, collate_fn=default_collate, **self.loader)
        with evaluating(model):
            found = []
            for of_batch in extract_batches(model.backbone, model.data_preprocessor, batches):
                found.append(of_batch)
                alive()
        features = torch.cat([stages[-1] for stages, _ in found])
        labels = torch.cat([labels for _, labels in found]).to(features.device)
        if gather and world > 1:
            return _interleaved(features, len(chosen)), _interleaved(labels, len(chosen))
        return features, labels


def _interleaved(rows: Tensor, total: int) -> Tensor:
    """Put the shares ``[rank::world]`` of all processes back in order."""
    world = get_dist_info()[1]
    missing = -(-total // world) - len(rows)  # 0 or 1
    rows = torch.cat([rows, rows[:missing]])
    return torch.stack(all_gather(rows), dim=1).flatten(0, 1)[:total]


def probe_of(config: str | Path) -> Probe:
    """The probe that a recipe trains with, its datasets built."""
    settings = dict(read_config(config).get('default_hooks', {}).get('probe') or {})
    if not settings:
        raise UserError(f'{config} has no default_hooks.probe: it does not say what to measure on.')
    for name in ('type', 'interval', 'linear_interval', 'priority'):  # of the hook
        settings.pop(name, None)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        probe = Probe(**settings)
        probe.build_datasets()
    return probe


def measure_checkpoint(
    checkpoint: str | Path, config: str | Path, device: str | None = None
) -> dict[str, float]:
    """Accuracies in percent, as the probe of the recipe would log them.

    Args:
        checkpoint: In any layout, or ``ttl_mm://name``.
        config: The recipe: it has the images, the normalization and the settings of the probe.
        device: Where to compute.
    """
    probe = probe_of(config)
    backbone, preprocessor, _ = load_model(str(checkpoint), str(config), device)
    model = nn.ModuleDict({'backbone': backbone, 'data_preprocessor': preprocessor})
    with torch.random.fork_rng():
        return {NAMES[name]: value for name, value in probe.measure(model).items()}
