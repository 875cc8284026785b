"""Features to points in the plane."""

from importlib.util import find_spec

import numpy as np

from ttl_mm.errors import UserError

MOST_FOR_TSNE = 20_000  # images; beyond that t-SNE takes more than ten minutes on two cores
MOST_FOR_UMAP = 200_000
METHODS = ('umap', 'tsne', 'pca')


def default_method(images: int) -> str:
    """UMAP where it is installed, else t-SNE; PCA where either would take too long."""
    if find_spec('umap') and images <= MOST_FOR_UMAP:
        return 'umap'
    return 'tsne' if 5 <= images <= MOST_FOR_TSNE else 'pca'


def project(features: np.ndarray, method: str | None = None, seed: int = 0) -> np.ndarray:
    """Points (N, 2) in [0, 1], the same for the same features and seed.

    Directions are compared, not lengths, as by every search of neighbors here.

    Args:
        features: (N, D).
        method: one of :data:`METHODS`; :func:`default_method` by default.
        seed: of UMAP and t-SNE.
    """
    method = method or default_method(len(features))
    if method not in METHODS:
        raise UserError(f'no projection {method!r}: choose {", ".join(METHODS)}.')
    units = unit_rows(features)
    if len(units) < 5 or method == 'pca':
        return _in_unit_square(_principal(units, 2))
    reduced = _principal(units, 50)
    if method == 'umap':
        return _in_unit_square(_umap(reduced, seed))
    from sklearn.manifold import TSNE  # half a second, which only this needs

    perplexity = min(30.0, (len(units) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init='pca', random_state=seed, n_jobs=-1)
    return _in_unit_square(tsne.fit_transform(reduced))


def unit_rows(features: np.ndarray) -> np.ndarray:
    """The rows (N, D) in float32 and at length 1; a row of zeros stays one."""
    features = np.asarray(features, np.float32)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths > 0, lengths, 1)


def _umap(features: np.ndarray, seed: int) -> np.ndarray:
    if not find_spec('umap'):
        raise UserError('UMAP is not installed: `pip install umap-learn`, or choose tsne or pca.')
    import umap

    options = {'n_neighbors': min(15, len(features) - 1), 'metric': 'cosine'}
    # with a seed it computes in one thread, and warns about any other number
    return umap.UMAP(**options, random_state=seed, n_jobs=1).fit_transform(features)


def _principal(rows: np.ndarray, dimensions: int) -> np.ndarray:
    """The first principal components (N, dimensions); those beyond D are zero."""
    centered = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)  # (D, D), the strongest last
    found = centered @ directions[:, ::-1][:, :dimensions]
    return np.pad(found, ((0, 0), (0, max(0, 2 - found.shape[1]))))


def _in_unit_square(points: np.ndarray) -> np.ndarray:
    """Move and scale the points into [0, 1], both axes by the same factor."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent = (high - low).max() or 1.0
    return ((points - (low + high) / 2) / extent + 0.5).astype(np.float32)
