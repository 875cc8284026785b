"""A detector in one file, and what it finds in images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.registry import DefaultScope

from ttl_mm.finetuning.network_file import Kind, open_network
from ttl_mm.finetuning.resnet import Described
from ttl_mm.tasks.detection.own_config import RECIPES, detector_config, plain_pipeline

KIND = Kind('detector', 'detector', RECIPES, 100_000, 'name the detector.pth of `ttl detect train`')


def _config(found: Described) -> Config:
    return detector_config(found.model, found.backbone(), found.classes, found.size)


@dataclass(frozen=True)
class Found:
    """Objects found in one image: extents (D, 4), scores (D,), numbers of classes (D,)."""

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    masks: list[dict] | None = None  # as run lengths of COCO

    def above(self, score: float) -> 'Found':
        """Those with a score of at least ``score``."""
        kept = np.flatnonzero(self.scores >= score)
        masks = None if self.masks is None else [self.masks[i] for i in kept]
        return Found(self.boxes[kept], self.scores[kept], self.labels[kept], masks)


class Detector:
    """The network of a file, in evaluation mode.

    Args:
        weights: ``detector.pth`` of ``ttl detect train``.
        device: Where to compute; a GPU if there is one, by default.

    Raises:
        UserError: The file holds no detector of ours.
    """

    def __init__(self, weights: str | Path, device: str | None = None) -> None:
        known, network = open_network(KIND, weights, _config, 'mmdet', device)
        self.classes, self.size, self.model = known.classes, known.size, cast(Any, network)
        with DefaultScope.overwrite_default_scope('mmdet'):
            self.pipeline = Compose(plain_pipeline(self.size))

    @torch.no_grad()
    def find(self, paths: Sequence[Path]) -> Iterator[Found | None]:
        """What is in each image; None for one that cannot be read."""
        for number, path in enumerate(paths, 1):
            try:
                sample = self.pipeline({'img_path': str(path), 'img_id': number})
            except Exception:  # mmcv raises anything for a file that is no image
                sample = None
            yield None if sample is None else self._find(sample)

    def _find(self, sample: dict) -> Found:
        (result,) = self.model.test_step(pseudo_collate([sample]))
        found = result.pred_instances
        masks = None
        if 'masks' in found:
            from mmdet.structures.mask import encode_mask_results

            masks = encode_mask_results(found.masks.cpu().numpy())
            for mask in masks:
                mask['counts'] = mask['counts'].decode()
        boxes, scores, labels = (
            found[key].cpu().numpy().astype(np.float64) for key in ('bboxes', 'scores', 'labels')
        )
        return Found(boxes, scores, labels.astype(int), masks)
