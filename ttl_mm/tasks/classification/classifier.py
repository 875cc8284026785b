"""A classifier in one file: backbone, linear layer, names of the classes; and what it predicts.

The file is a checkpoint like any other, and ``ttl import`` or ``ttl eval`` take its backbone.
Nothing in it is executed: the network is found as for any file of weights, and the linear layer is
two tensors.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ttl_mm.checkpoint.load import refuse_bad_tensors, resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.features import extract_features
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.finetuning.network_file import write_network
from ttl_mm.tasks.classification.source import Source
from ttl_mm.tasks.classification.standardize import folded

WEIGHT, BIAS = 'head.fc.weight', 'head.fc.bias'
REMEDY = 'name the classifier.pth of `ttl finetune`'


class Layer(NamedTuple):
    """The linear layer on top of the features: (C, D), (C,), and the names of C classes."""

    weight: Tensor
    bias: Tensor
    classes: tuple[str, ...]

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """(N, D) to (N, C)."""
        logits = torch.from_numpy(np.array(features)).double() @ self.weight.double().T
        return (logits + self.bias.double()).softmax(dim=1).numpy()


def write_classifier(checkpoint: Path, path: Path, source: Source, classes: Sequence[str]) -> None:
    """Write the model of a run, on plain features, without the state of its training."""
    pixels = {'size': source.size, 'mean': list(source.mean), 'std': list(source.std)}
    meta = {'classes': list(classes), 'input': pixels, 'backbone': source.backbone}
    write_network(checkpoint, path, meta, partial(folded, weight=WEIGHT, bias=BIAS))


def read_layer(weights: str | Path) -> Layer:
    """The linear layer of a file.

    Raises:
        UserError: It holds no classifier of ours.
    """
    content = read_checkpoint(resolve(weights))
    tensors = tensors_of(content)
    meta = content.get('meta')
    classes = meta.get('classes') if isinstance(meta, dict) else None
    if WEIGHT not in tensors or BIAS not in tensors or not isinstance(classes, (list, tuple)):
        raise UserError(f'{weights} holds no classifier with names of classes: {REMEDY}.')
    weight, bias = tensors[WEIGHT], tensors[BIAS]
    refuse_bad_tensors({WEIGHT: weight, BIAS: bias}, str(weights))
    named = all(isinstance(name, str) for name in classes)
    if weight.ndim != 2 or weight.shape[:1] != bias.shape or len(classes) != len(bias) or not named:
        raise UserError(
            f'{weights} has {counted(len(classes), "class", "classes")} and a layer of shape '
            f'{tuple(weight.shape)}: {REMEDY}.'
        )
    return Layer(weight, bias, tuple(classes))


def classify(
    weights: str | Path, open_images, cache: Path, size: int | None = None, **options: Any
) -> tuple[np.ndarray, Any, Layer]:
    """Probabilities (N, C) of images, their features, and the layer that judged them.

    Args:
        weights: A classifier.
        open_images: Makes the dataset, for images of a size.
        cache: File for the features, as :func:`ttl_mm.evaluation.features.extract_features` writes.
        size: Edge of the images; that of training by default.
        options: ``device``, ``batch_size``, ``num_workers`` and ``progress``.
    """
    layer = read_layer(weights)
    backbone, preprocessor, about = load_model(str(weights), device=options.pop('device', None))
    dataset = open_images(size or default_size(backbone, about.get('trained_size')))
    found = extract_features(backbone, preprocessor, dataset, cache, about, **options)
    if found.features.shape[1] != layer.weight.shape[1]:
        raise UserError(
            f'{weights}: its backbone has {found.features.shape[1]} features and its layer takes '
            f'{layer.weight.shape[1]}: {REMEDY}.'
        )
    return layer.probabilities(found.features), found, layer
