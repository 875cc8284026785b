"""The forward pass that every evaluation shares: from a batch of images to features."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.model import ImgDataPreprocessor
from torch import Tensor, nn

from ttl_mm.errors import UserError


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside; afterwards every submodule has its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:  # not .train(), which would also switch frozen stages
            part.training = training


@contextmanager
def output_stages(backbone: Any, stages: Sequence[int]) -> Iterator[None]:
    """Let the backbone return these stages, counted from 1."""
    count = len(getattr(backbone, 'stage_blocks', ())) or 4
    known = getattr(backbone, 'stages', range(1, count + 1))
    if not hasattr(backbone, 'out_indices') or not set(stages) <= set(known):
        has = f'the stages 1 to {count}' if len(known) > 1 else f'only its features, stage {count}'
        raise UserError(
            f'stages {list(stages)} were asked of a {type(backbone).__name__}: it has {has}.'
        )
    before = backbone.out_indices
    backbone.out_indices = tuple(stage - 1 for stage in sorted(stages))
    try:
        yield
    finally:
        backbone.out_indices = before


def pooled(outputs: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Average every output over its positions: (N, C, H, W) -> (N, C)."""
    outputs = [outputs] if isinstance(outputs, Tensor) else outputs
    return [x.flatten(2).mean(2) if x.ndim > 2 else x for x in outputs]


def images_of(preprocessor: nn.Module, batch: dict) -> Tensor:
    """The images of a batch, (n, 3, H, W), on the model's device and normalized.

    mmselfsup's preprocessors go on to make the input of their pretext task; that of their base
    class is the image itself.
    """
    if isinstance(preprocessor, ImgDataPreprocessor):
        return ImgDataPreprocessor.forward(preprocessor, batch, False)['inputs']
    return preprocessor(batch, False)['inputs']


def extract_batches(
    backbone: nn.Module, preprocessor: nn.Module, batches: Iterable[dict]
) -> Iterator[tuple[list[Tensor], Tensor]]:
    """Yield the pooled features of every stage, (n, C) float32 each, and the labels (n,).

    Args:
        backbone: in the mode it is to be used in, see :func:`evaluating`.
        preprocessor: moves a batch to the device and normalizes it.
        batches: ``inputs`` (n, 3, H, W) and ``data_samples``, as mmengine's default_collate makes.
    """
    for batch in batches:
        inputs = images_of(preprocessor, batch)
        count = len(inputs)
        if count == 1:  # one image would go through other kernels, which round differently
            inputs = inputs.repeat(2, 1, 1, 1)
        features = [x[:count].float() for x in pooled(backbone(inputs))]
        yield features, require_labels(batch['data_samples'])


def require_labels(samples: Sequence) -> Tensor:
    """The class numbers (n,) of data samples."""
    for sample in samples:
        if 'gt_label' not in sample:
            raise UserError(
                f'{sample.get("img_path", "an image")} has no label: evaluation needs one for '
                'every image; keep unlabeled images out of the folder.'
            )
    return torch.cat([sample.gt_label for sample in samples]).cpu()
