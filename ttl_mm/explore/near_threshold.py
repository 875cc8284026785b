"""The cosine from which two images count as near duplicates, found with the user's own images."""

import numpy as np
import torch
from mmengine.dataset import Compose, default_collate

from ttl_mm.datasets.decode import decode_image
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.evaluation.feature_file import NO_LABEL
from ttl_mm.evaluation.forward import extract_batches
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.explore.duplicates import Centered, Threshold, altered_copy, choose_threshold, mean_of
from ttl_mm.explore.embedding import Embedding

SAMPLE = 300  # images that are altered
BATCH = 64


def find_threshold(
    embedding: Embedding, weights: str, config: str | None = None, size: int | None = None,
    device: str | None = None, seed: int = 0,
) -> Threshold:  # fmt: skip
    """Alter some of the images as copies usually are, and see how near their features stay.

    Args:
        embedding: of two images or more.
        weights: the checkpoint that made the embedding.
        config: as for the embedding.
        size: as for the embedding.
        device: where to compute.
        seed: of the alterations.
    """
    chosen = np.unique(np.linspace(0, len(embedding) - 1, SAMPLE).astype(int))
    files = embedding.rows(chosen).files()
    copies = _features_of_copies(files, weights, config, size, device, seed)
    images = Centered(embedding.features, mean_of(embedding.features))
    originals = torch.from_numpy(images[chosen])
    similarity = torch.cosine_similarity(
        copies - torch.from_numpy(images.mean), originals
    ).numpy()  # (M,)
    found = nearest_neighbors(images, originals, min(3, len(images)))
    others = torch.cat([cosines for cosines, _ in found]).numpy()[:, 1:]  # the first is itself
    # the nearest of an image that has a real duplicate is no ordinary neighbor, the next one is
    limit = choose_threshold(similarity, others[:, -1])
    return limit._replace(flagged=float((others[:, 0] >= limit.cosine).mean()))


def _features_of_copies(
    files: list[str], weights: str, config: str | None, size: int | None, device, seed: int
) -> torch.Tensor:
    backbone, preprocessor, about = load_model(weights, config, device)
    if 'bands' in about:
        raise UserError(
            'copies of images beyond 8-bit RGB are not made yet, so how near they are is not '
            'known: name the cosine of near duplicates yourself.'
        )
    size = size or default_size(backbone, about.get('trained_size'))
    pipeline = Compose(evaluation_pipeline(size))
    rng = np.random.default_rng(seed)
    found = []
    for start in range(0, len(files), BATCH):
        samples = []
        for kind, file in enumerate(files[start : start + BATCH], start):
            copy = altered_copy(decode_image(file), kind, rng)
            samples.append(pipeline({'img': copy, 'gt_label': NO_LABEL, 'sample_idx': kind}))
        with torch.no_grad():
            batch = extract_batches(backbone, preprocessor, [default_collate(samples)])
            found += [features[-1].cpu() for features, _ in batch]
    return torch.cat(found)
