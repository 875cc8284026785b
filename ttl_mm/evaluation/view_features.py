"""Features of several views of the same images, made as training makes them.

Measures without labels compare views. The images and their views are the same every time, so that
whatever changes between two checkpoints comes from the network.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from mmengine.dataset import default_collate
from torch import Tensor

from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.evaluation.forward import evaluating, pooled

FIRST_DRAW = 2**31  # an epoch that no run reaches: these views are not those of any epoch


def spread_indices(count: int, total: int) -> list[int]:
    """Up to ``count`` indices, evenly spread over ``total`` images.

    >>> spread_indices(3, 10)
    [0, 3, 6]
    """
    count = min(count, total)
    return [i * total // count for i in range(count)]


def view_features(
    model: Any,
    samples: Any,
    indices: Sequence[int],
    draws: int,
    seed: int,
    alive: Callable[[], None] = lambda: None,
    batch_size: int = 64,
) -> Tensor:
    """Pooled features (N, Q, D) of the backbone, Q = ``draws`` times the views of a sample.

    Views of another size than the first, such as small crops, are left out.

    Args:
        model: has ``backbone`` and ``data_preprocessor``; it is in evaluation mode inside.
        samples: the training samples, :class:`~ttl_mm.datasets.train_samples.TrainSamples`.
        indices: (N,) of the images.
        draws: how often each image is read, with other views each time.
        seed: of the run.
        alive: called after every batch.
        batch_size: images per forward pass.
    """
    found = []
    with evaluating(model):
        for batch in (indices[i : i + batch_size] for i in range(0, len(indices), batch_size)):
            drawn = [
                view
                for draw in range(draws)
                for view in _views(model, samples, batch, FIRST_DRAW + draw, seed)
            ]
            features = [pooled(model.backbone(view))[-1].float() for view in drawn]
            found.append(torch.stack(features, dim=1).cpu())  # (n, Q, D)
            alive()
    return torch.cat(found)


def _views(
    model: Any, samples: Any, indices: Sequence[int], epoch: int, seed: int
) -> Iterator[Tensor]:
    """The views (n, C, H, W) of one batch that have the size of the first."""
    batch = default_collate([samples[SampleIndex(i, epoch, seed)] for i in indices])
    inputs = model.data_preprocessor(batch, False)['inputs']
    views = [inputs] if isinstance(inputs, Tensor) else inputs
    yield from (view for view in views if view.shape == views[0].shape)
