"""Which images to label, or to look at: a diverse subset, or the odd ones."""

import numpy as np
import torch

from ttl_mm.errors import UserError
from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.explore.projection import unit_rows


def diverse_subset(
    features: np.ndarray, number: int, density_weight: float = 0.0, seed: int = 0
) -> np.ndarray:
    """``number`` rows that cover all others: greedy k-center, in the order of choice.

    Each step takes the image that is farthest (by 1 - cosine) from those taken. With a weight w the
    distance is multiplied by density^w, where the density of an image is its mean cosine to its ten
    nearest, scaled to [0, 1]: odd images then come later.

    Args:
        features: (N, D).
        number: from 1 to N.
        density_weight: 0 is the plain algorithm.
        seed: of the first image, which is drawn.
    """
    _check_number(number, len(features))
    units = torch.from_numpy(unit_rows(features))  # (N, D)
    weights = torch.ones(len(units))
    if density_weight:
        weights = torch.from_numpy(densities(features)).float() ** density_weight
    chosen = [int(np.random.default_rng(seed).integers(len(units)))]
    distance = 1 - units @ units[chosen[0]]  # (N,) to the nearest of those taken
    taken = torch.zeros(len(units), dtype=torch.bool)
    taken[chosen[0]] = True
    while len(chosen) < number:
        best = int((distance * weights).masked_fill(taken, -torch.inf).argmax())
        chosen.append(best)
        taken[best] = True
        distance = torch.minimum(distance, 1 - units @ units[best])
    return np.array(chosen)


def outliers(features: np.ndarray, number: int) -> np.ndarray:
    """The ``number`` rows with the lowest density, the oddest first."""
    _check_number(number, len(features))
    return np.argsort(densities(features), kind='stable')[:number]


def densities(features: np.ndarray, neighbors: int = 10) -> np.ndarray:
    """(N,) mean cosine to the nearest others, scaled so that the sparsest is 0, the densest 1."""
    count = min(neighbors, len(features) - 1)
    if count < 1:
        return np.ones(len(features))
    found = [s[:, 1:].mean(dim=1) for s, _ in nearest_neighbors(features, features, count + 1)]
    means = torch.cat(found).cpu().numpy()
    span = np.ptp(means)
    return (means - means.min()) / span if span > 0 else np.ones(len(means))


def _check_number(number: int, total: int) -> None:
    if not 1 <= number <= total:
        raise UserError(f'--number {number} of {total} images: choose 1 to {total}.')
