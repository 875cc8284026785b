"""A segmentation network in one file, and the classes of pixels that it finds.

Nothing in the file is executed: it names a ResNet and the classes; the network is built from these,
and the tensors must be its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dataset import Compose, pseudo_collate
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope

import ttl_mm.tasks.segmentation.parts  # noqa: F401 registers what the config names
from ttl_mm.checkpoint.load import refuse_bad_tensors, resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.datasets.decode import BadImageError
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import choose_device
from ttl_mm.evaluation.resnet import Backbone, read_description
from ttl_mm.models.build_loaded import build_loaded
from ttl_mm.tasks.segmentation.own_config import model_config, plain_pipeline
from ttl_mm.version import __version__

REMEDY = 'name the segmenter.pth of `ttl segment train`'


def write_segmenter(
    checkpoint: Path, path: Path, backbone: Backbone, classes: Sequence[str], size: int
) -> None:
    """Write the model of a run without the state of its training."""
    state = {n: t.clone() for n, t in tensors_of(read_checkpoint(checkpoint)).items()}
    meta: dict[str, Any] = {
        'segmenter': 'fcn', 'classes': list(classes), 'backbone': backbone.config,
        'input': {'size': size, 'mean': list(backbone.mean), 'std': list(backbone.std)},
        'written_by': f'ttl_mm {__version__}',
    }  # fmt: skip
    partial = path.with_name(f'{path.name}.partial')
    torch.save({'state_dict': state, 'meta': meta}, partial)
    partial.replace(path)


class Segmenter:
    """The network of a file, in evaluation mode.

    Args:
        weights: ``segmenter.pth`` of ``ttl segment train``.
        device: Where to compute; a GPU if there is one, by default.

    Raises:
        UserError: The file holds no segmentation network of ours.
    """

    def __init__(self, weights: str | Path, device: str | None = None) -> None:
        content = read_checkpoint(resolve(weights))
        found = read_description(content.get('meta'), 'segmenter')
        if found is None:
            raise UserError(f'{weights} holds no segmentation network: {REMEDY}.')
        if found.model != 'fcn' or not 1 <= len(found.classes) <= 255:
            raise UserError(
                f'{weights} names the network {found.model!r} for {len(found.classes)} classes, '
                f'which is refused: {REMEDY}.'
            )
        self.classes, self.size = found.classes, found.size
        cfg = model_config(found.backbone(), len(self.classes))
        state = tensors_of(content)
        refuse_bad_tensors(state, str(weights))
        self.model: Any = revert_sync_batchnorm(build_loaded(cfg.model, state, str(weights)))
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            self.pipeline = Compose(plain_pipeline(self.size))
        self.model.to(choose_device(device)).eval()

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
