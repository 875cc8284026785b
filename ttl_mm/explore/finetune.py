"""Fine-tuning: all weights of a network learn a labeled set, then it labels other images.

The settings are the same for every network, and nothing is chosen by the test images.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from mmengine.dataset import default_collate
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from ttl_mm.evaluation.forward import evaluating, images_of, pooled, require_labels

BATCH, STEPS = 64, 16  # images of a step; few images make smaller batches, for so many steps
RATE, DECAY = 5e-4, 0.05  # of AdamW; the rate falls to zero along a cosine
SHIFT = 8  # images move by up to 1 / 8 of their edge


def finetune_classify(
    backbone: nn.Module, preprocessor: nn.Module, train: Any, rows: np.ndarray, test: Any,
    epochs: int, seed: int, workers: int = 0,
) -> np.ndarray:  # fmt: skip
    """The predicted labels (Q,) of the images of ``test``.

    Images are mirrored and shifted at random. Order, shifts and the new last layer depend on the
    seed alone, so that networks are compared under equal conditions.

    Args:
        backbone: maps images to features; it stays as it is, a copy is trained.
        preprocessor: moves a batch to the device and normalizes it.
        train: labeled dataset.
        rows: which of its images to train on.
        test: labeled dataset.
        epochs: passes over the images.
        seed: of everything random.
        workers: processes that load images.
    """
    generator = torch.Generator().manual_seed(seed)
    network = _Classifier(deepcopy(backbone), preprocessor, train, generator)
    batches = -(-len(rows) // min(BATCH, max(8, len(rows) // STEPS)))
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)  # of dropout
        for _ in range(epochs):
            order = rows[torch.randperm(len(rows), generator=generator).numpy()]
            # BatchNorm cannot learn from a single image
            parts = [part for part in np.array_split(order, batches) if len(part) > 1]
            network.train()
            for images, labels in _batches(preprocessor, train, parts, workers):
                optimizer.zero_grad()
                logits = network(moved(images, generator))
                F.cross_entropy(logits, labels.to(logits.device)).backward()
                optimizer.step()
                schedule.step()
    parts = np.array_split(np.arange(len(test)), max(1, -(-len(test) // BATCH)))
    with evaluating(network):
        found = [
            network(images).argmax(1) for images, _ in _batches(preprocessor, test, parts, workers)
        ]
    return torch.cat(found).cpu().numpy()


class _Classifier(nn.Module):
    """A backbone with a linear layer on its pooled features."""

    def __init__(self, backbone: nn.Module, preprocessor: nn.Module, data: Any, generator) -> None:
        super().__init__()
        self.backbone = backbone.requires_grad_(True)
        with evaluating(backbone):
            ((images, _),) = _batches(preprocessor, data, [np.array([0, 0])], 0)
            (width,) = pooled(backbone(images))[-1].shape[1:]
        self.last = nn.Linear(width, len(data.metainfo['classes']))
        nn.init.normal_(self.last.weight, std=0.01, generator=generator)
        nn.init.zeros_(self.last.bias)
        self.last.to(images.device)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(pooled(self.backbone(images))[-1])


def _batches(
    preprocessor: nn.Module, data: Any, parts: Sequence[np.ndarray], workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Normalized images (n, 3, H, W) and labels (n,) of some rows of a dataset."""
    sampler = [part.tolist() for part in parts]
    loader = DataLoader(
        data, batch_sampler=sampler, num_workers=workers, collate_fn=default_collate
    )
    for batch in loader:
        yield images_of(preprocessor, batch), require_labels(batch['data_samples'])


def moved(images: Tensor, generator: torch.Generator) -> Tensor:
    """Images (n, 3, H, W), each mirrored or not and shifted; edges are filled by reflection."""
    count, _, height, width = images.shape
    pad = max(1, min(height, width) // SHIFT)
    wide = F.pad(images, (pad,) * 4, mode='reflect')
    places = torch.randint(2 * pad + 1, (count, 2), generator=generator).tolist()
    mirror = torch.randint(2, (count,), generator=generator).tolist()
    return torch.stack(
        [
            (image.flip(2) if flip else image)[:, top : top + height, left : left + width]
            for image, (top, left), flip in zip(wide, places, mirror)
        ]
    )
