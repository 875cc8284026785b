"""The images nearest to a query image."""

from pathlib import Path

import numpy as np
import torch
from mmengine.dataset import Compose, default_collate

from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.evaluation.feature_file import NO_LABEL
from ttl_mm.evaluation.forward import extract_batches
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.explore.embedding import Embedding


def find_similar(
    query: str, embedding: Embedding, number: int, weights: str | None = None,
    config: str | None = None, size: int | None = None, device: str | None = None,
) -> list[tuple[str, float]]:  # fmt: skip
    """Path and cosine of the nearest images, nearest first, without the query itself.

    The features of a query that is in the embedding are taken from there; those of another image
    are computed, which needs the ``weights`` that made the embedding.
    """
    row = row_of(query, embedding)
    if row is not None:
        features = np.asarray(embedding.features[row])
    elif weights is None:
        raise UserError(
            f'{query} is not among the images of the embedding: name the weights that made it '
            'with --weights.'
        )
    else:
        features = _features_of(query, weights, config, size, device)
        if len(features) != embedding.features.shape[1]:
            raise UserError(
                f'{weights} gives {len(features)} features, the embedding has '
                f'{embedding.features.shape[1]}: name the weights that made it.'
            )
    count = min(number + (row is not None), len(embedding))
    ((similarity, index),) = nearest_neighbors(embedding.features, features[None], count)
    found = zip(index[0].tolist(), similarity[0].tolist())
    return [(embedding.paths[i], cosine) for i, cosine in found if i != row][:number]


def row_of(query: str, embedding: Embedding) -> int | None:
    """The row of the query, named by its path below the root or by its whole path."""
    names = {query, str(Path(query))}
    if Path(query).resolve().is_relative_to(embedding.root.resolve()):
        names.add(str(Path(query).resolve().relative_to(embedding.root.resolve())))
    return next((i for i, path in enumerate(embedding.paths) if path in names), None)


def _features_of(query: str, weights: str, config, size, device) -> np.ndarray:
    backbone, preprocessor, about = load_model(weights, config, device)
    size = size or default_size(backbone, about.get('trained_size'))
    pipeline = Compose(evaluation_pipeline(size, about.get('bands')))
    sample = pipeline({'img_path': query, 'gt_label': NO_LABEL, 'sample_idx': 0})
    with torch.no_grad():
        batch = extract_batches(backbone, preprocessor, [default_collate([sample])])
        ((features, _),) = list(batch)
    return features[-1][0].cpu().numpy()
