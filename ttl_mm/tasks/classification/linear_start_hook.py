"""A classifier begins as a logistic regression on the features that the backbone has."""

from typing import Any

import torch
from mmengine.dataset import default_collate
from mmengine.hooks import Hook
from torch.utils.data import DataLoader

from ttl_mm.datasets.build_dataset import build_dataset
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.evaluation.forward import evaluating, extract_batches
from ttl_mm.evaluation.linear import fit_logistic
from ttl_mm.registry import HOOKS

C = 2.5  # as scikit-learn's C, for features of mean length 1
MAX_ITER = 200


@HOOKS.register_module()
class LinearStartHook(Hook):
    """Before the first step: mean and variance of the features, and the linear layer on them.

    A random linear layer needs a large rate, at which it diverges on some backbones, and its first
    gradients spoil the features (Kumar et al., 2022). With standardized features x of D
    dimensions, layer and biases minimize::

        Σ_i -log p(y_i | x_i) + D / (2·2.5)·|W|²

    Args:
        dataset: The training images, not augmented.
        batch_size: Of a forward pass.
    """

    priority = 'VERY_LOW'  # the backbone is loaded and, if it is to be, frozen

    def __init__(self, dataset: dict[str, Any], batch_size: int = 64) -> None:
        self.dataset, self.batch_size = dataset, batch_size

    def before_train(self, runner) -> None:
        """A run that goes on has its classifier from the checkpoint."""
        if runner.iter:
            return
        model: Any = unwrap_model(runner.model)
        dataset = build_dataset(self.dataset, 'the classifier')
        loader = DataLoader(dataset, self.batch_size, collate_fn=default_collate)
        with evaluating(model):
            found = [
                (features[-1], labels)
                for features, labels in extract_batches(
                    model.backbone, model.data_preprocessor, loader
                )
            ]
        features, labels = (torch.cat(column) for column in zip(*found))  # (N, D), (N,)
        norm, layer = model.neck[1].norm, model.head.fc
        var, mean = torch.var_mean(features, dim=0, correction=0)
        count, width = features.shape
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(var)
        weight = fit_logistic(
            (features - mean) / torch.sqrt(var + norm.eps), labels.cpu().numpy(),
            layer.out_features, MAX_ITER, features.device, penalty=width / (C * count),
        )  # fmt: skip
        with torch.no_grad():
            layer.weight.copy_(weight[:-1].T)
            layer.bias.copy_(weight[-1])
