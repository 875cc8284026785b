"""What the comparison needs beside ttl_mm and mmpretrain."""

from typing import Any

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.model import BaseModule
from torch import Tensor

from ttl_mm.datasets.part import Part, draw_fraction
from ttl_mm.registry import DATASETS, MODELS, TRANSFORMS


@MODELS.register_module()
class DecoupledHead(BaseModule):
    """For SimCLR: -s_pos / T + log Σ_neg exp(s_neg / T), no positive in the denominator."""

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__()
        self.temperature = temperature

    def loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The mean over rows of similarities: positive (N, 1), negative (N, M)."""
        scaled = torch.logsumexp(negative / self.temperature, dim=1)
        return (scaled - positive[:, 0] / self.temperature).mean()


@DATASETS.register_module()
class HeldOut(Part):
    """A fraction of every class that a search judges on, or the rest that it trains on."""

    def __init__(self, dataset: dict[str, Any], fraction: float, rest: bool) -> None:
        whole = DATASETS.build(dataset)
        chosen = draw_fraction(whole.get_gt_labels(), fraction, seed=0)
        super().__init__(whole, np.setdiff1d(np.arange(len(whole)), chosen) if rest else chosen)


@TRANSFORMS.register_module()
class FirstView(BaseTransform):
    """The first of the views as the image, for training with labels."""

    def transform(self, results: dict) -> dict:
        results['img'] = results['img'][0]
        return results
