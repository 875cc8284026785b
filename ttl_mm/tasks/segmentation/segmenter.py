"""A segmentation network in one file, and the classes of pixels that it finds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.registry import DefaultScope

import ttl_mm.tasks.segmentation.parts  # noqa: F401 registers what the config names
from ttl_mm.datasets.decode import BadImageError
from ttl_mm.finetuning.network_file import Kind, open_network
from ttl_mm.finetuning.resnet import Described
from ttl_mm.tasks.segmentation.own_config import model_config, plain_pipeline

FCN = 'fcn'  # the model that a file names
REMEDY = 'name the segmenter.pth of `ttl segment train`'
KIND = Kind('segmenter', 'segmentation network', [FCN], 255, REMEDY)


def _config(found: Described) -> Config:
    return model_config(found.backbone(), len(found.classes))


class Segmenter:
    """The network of a file, in evaluation mode.

    Args:
        weights: ``segmenter.pth`` of ``ttl segment train``.
        device: Where to compute; a GPU if there is one, by default.

    Raises:
        UserError: The file holds no segmentation network of ours.
    """

    def __init__(self, weights: str | Path, device: str | None = None) -> None:
        known, network = open_network(KIND, weights, _config, 'mmpretrain', device)
        self.classes, self.size, self.model = known.classes, known.size, cast(Any, network)
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            self.pipeline = Compose(plain_pipeline(self.size))

    @torch.no_grad()
    def find(self, paths: Sequence[Path]) -> Iterator[np.ndarray | None]:
        """The classes of the pixels (H, W) of each image, resized; None for one that is none."""
        for path in paths:
            try:
                sample = self.pipeline({'img_path': str(path)})
            except BadImageError:
                yield None
                continue
            (result,) = self.model.test_step(pseudo_collate([sample]))
            yield result.found.numpy().astype(np.uint8)
