"""A detector in one file, and what it finds in images.

Nothing in the file is executed: it names one of our recipes, a ResNet and the classes; the network
is built from these, and the tensors must be its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dataset import Compose, pseudo_collate
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope

from ttl_mm.checkpoint.load import refuse_bad_tensors, resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import choose_device
from ttl_mm.evaluation.resnet import Backbone, read_description
from ttl_mm.models.build_loaded import build_loaded
from ttl_mm.tasks.detection.own_config import RECIPES, detector_config, plain_pipeline
from ttl_mm.version import __version__

REMEDY = 'name the detector.pth of `ttl detect train`'


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


def write_detector(
    checkpoint: Path, path: Path, model: str, backbone: Backbone, classes: Sequence[str], size: int
) -> None:
    """Write the model of a run without the state of its training."""
    state = {n: t.clone() for n, t in tensors_of(read_checkpoint(checkpoint)).items()}
    meta: dict[str, Any] = {
        'detector': model, 'classes': list(classes), 'backbone': backbone.config,
        'input': {'size': size, 'mean': list(backbone.mean), 'std': list(backbone.std)},
        'written_by': f'ttl_mm {__version__}',
    }  # fmt: skip
    partial = path.with_name(f'{path.name}.partial')
    torch.save({'state_dict': state, 'meta': meta}, partial)
    partial.replace(path)


class Detector:
    """The network of a file, in evaluation mode.

    Args:
        weights: ``detector.pth`` of ``ttl detect train``.
        device: Where to compute; a GPU if there is one, by default.

    Raises:
        UserError: The file holds no detector of ours.
    """

    def __init__(self, weights: str | Path, device: str | None = None) -> None:
        content = read_checkpoint(resolve(weights))
        found = read_description(content.get('meta'), 'detector')
        if found is None:
            raise UserError(f'{weights} holds no detector: {REMEDY}.')
        if found.model not in RECIPES or not 1 <= len(found.classes) <= 100_000:
            raise UserError(
                f'{weights} names the detector {found.model!r} for {len(found.classes)} classes, '
                f'which is refused: {REMEDY}.'
            )
        self.classes, self.size = found.classes, found.size
        cfg = detector_config(found.model, found.backbone(), self.classes, self.size)
        state = tensors_of(content)
        refuse_bad_tensors(state, str(weights))
        network = build_loaded(cfg.model, state, str(weights), 'mmdet')
        self.model: Any = revert_sync_batchnorm(network)
        with DefaultScope.overwrite_default_scope('mmdet'):
            self.pipeline = Compose(plain_pipeline(self.size))
        self.model.to(choose_device(device)).eval()

    @torch.no_grad()
    def find(
        self, paths: Sequence[Path], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[Found | None]:
        """What is in each image; None for one that cannot be read."""
        for number, path in enumerate(paths, 1):
            try:
                sample = self.pipeline({'img_path': str(path), 'img_id': number})
            except Exception:  # mmcv raises anything for a file that is no image
                sample = None
            yield None if sample is None else self._find(sample)
            progress(number, len(paths))

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
