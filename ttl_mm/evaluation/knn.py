"""Exact weighted k-nearest-neighbour classification in bounded memory.

The similarity of a query q and a training sample x is their cosine, decided in float64; the vote of
a neighbour is exp(similarity / temperature). Ties follow one rule:

* neighbours are ordered by similarity, equal ones by their position in the training set, so the
  earlier sample wins the k-th place;
* among labels with equal votes the smallest wins.

How it is fast. The product of a tile of queries and a tile of training samples runs in float32
and stays in the cache. Of each block of 64 products only the maximum is looked at: a block whose
maximum is below the query's k-th best similarity, minus a bound of the float32 error, holds no
neighbour. The few products that remain are computed again in float64 and merged. So the result
does not depend on tile sizes or threads, and costs little more than the matrix product.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ttl_mm.errors import UserError

PANEL = 8192  # queries that share one pass over the training set
TILE_QUERIES, TILE_TRAIN, BLOCK = 1024, 2048, 64
SCRATCH = 1 << 26  # bytes of a temporary array

# unit round-off of a float32 product under torch.set_float32_matmul_precision(...)
ROUND_OFF = {'highest': 2.0**-24, 'high': 2.0**-11, 'medium': 2.0**-8}


def knn_classify(
    train_features, train_labels, test_features, k: int = 20, temperature: float = 0.07, device=None
):
    """Predict a label for every test sample by a weighted vote of its ``k`` nearest neighbours.

    Args:
        train_features: (N, D), a tensor or an array, memory-mapped if it is large.
        train_labels: (N,), anything :func:`numpy.unique` can sort.
        test_features: (Q, D).
        k: the number of neighbours.
        temperature: the vote of a neighbour is exp(cosine / temperature).
        device: where to compute; the device of ``train_features`` by default.

    Returns:
        (Q,) predicted labels: a tensor if ``train_labels`` is one, else an array.
    """
    sweep = knn_sweep(train_features, train_labels, test_features, [k], [temperature], device)
    return sweep[k, temperature]


def knn_sweep(
    train_features,
    train_labels,
    test_features,
    ks: Sequence[int],
    temperatures: Sequence[float],
    device=None,
) -> dict:
    """Predictions for every ``(k, temperature)``, in one pass over the features."""
    _check(train_features, train_labels, test_features, ks, temperatures)
    classes, codes = np.unique(_to_numpy(train_labels), return_inverse=True)
    predicted = {(k, t): [] for k in ks for t in temperatures}
    for similarity, index in nearest_neighbors(train_features, test_features, max(ks), device):
        neighbors = torch.from_numpy(codes).to(index.device)[index]  # (q, k)
        for k, t in predicted:
            vote = weighted_vote(similarity[:, :k], neighbors[:, :k], len(classes), t)
            predicted[k, t].append(vote.cpu().numpy())
    labels = {key: classes[np.concatenate(parts)] for key, parts in predicted.items()}
    if isinstance(train_labels, Tensor):
        return {key: torch.from_numpy(p).to(train_labels.device) for key, p in labels.items()}
    return labels


def nearest_neighbors(train, test, k: int, device=None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the similarities (q, k, float64) and the training indices (q, k) of panels of queries.

    Best first; memory is bounded whatever the number of queries and of training samples.
    """
    device = torch.device(device or getattr(train, 'device', 'cpu'))
    for start in range(0, len(test), PANEL):
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            queries = _Rows(test, start, start + PANEL, device, 'test')
            found = _panel(train, queries, k)
        yield found


def weighted_vote(similarity: Tensor, labels: Tensor, num_classes: int, temperature: float):
    """The label (q,) with the largest sum of exp(similarity / temperature), (q, k) each."""
    weight = (
        (similarity - similarity[:, :1]) / temperature
    ).exp()  # the best counts 1: no overflow
    winners = []
    for w, c in zip(*(x.split(max(1, SCRATCH // (8 * num_classes))) for x in (weight, labels))):
        votes = w.new_zeros(len(w), num_classes)
        for j in range(w.shape[1]):  # one neighbour at a time: a fixed order of summation
            votes.scatter_add_(1, c[:, j : j + 1], w[:, j : j + 1])
        winners.append(votes.argmax(1))  # the first of equal maxima
    return torch.cat(winners)


class _Rows:
    """A slice of a feature matrix: the rows as given, their norms, and float32 unit vectors."""

    def __init__(self, matrix, start: int, stop: int, device: torch.device, what: str) -> None:
        rows = matrix[start:stop]
        self.start = start
        self.raw = (rows if isinstance(rows, Tensor) else torch.tensor(rows)).to(device)
        self.norm = torch.linalg.vector_norm(self.raw, dim=1, dtype=torch.float64)
        if not self.norm.isfinite().all():
            bad = start + int(self.norm.isfinite().logical_not().nonzero()[0])
            raise UserError(
                f'row {bad} of the {what} features holds NaN or infinity: check the checkpoint '
                'and extract the features again.'
            )
        self.norm[self.norm == 0] = 1.0  # a zero vector has cosine 0 with everything
        self.unit = (self.raw.double() / self.norm[:, None]).float()


def _panel(train, queries: _Rows, k: int) -> tuple[Tensor, Tensor]:
    """The neighbours of one panel of queries, by one pass over the training set."""
    count, dim = queries.raw.shape
    best = queries.norm.new_full((count, k), -torch.inf)
    index = torch.zeros_like(best, dtype=torch.int64)
    tile = max(TILE_TRAIN, k)  # so that the first tile fills all k places
    buffer = queries.unit.new_empty(min(count, TILE_QUERIES) * min(len(train), tile))
    # |float32 product - cosine|: rounding of both unit vectors, then of dim multiply-adds
    error = (dim + 8) * ROUND_OFF[torch.get_float32_matmul_precision()]
    for start in range(0, len(train), tile):
        samples = _Rows(train, start, start + tile, best.device, 'training')
        for low in range(0, count, TILE_QUERIES):
            high = min(low + TILE_QUERIES, count)
            product = buffer[: (high - low) * len(samples.raw)].view(high - low, -1)  # (q, n)
            torch.mm(queries.unit[low:high], samples.unit.T, out=product)
            kth = best[low:high, -1]
            if start == 0:
                kth = product.topk(k, dim=1).values[:, -1].double() - error
            row, column = _at_least(product, (kth - error).float())
            exact = _cosine(queries, row + low, samples, column)
            _merge(best[low:high], index[low:high], row, exact, column + start)
    return best, index


def _at_least(product: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of the entries not below the floor (q,) of their row, in order."""
    product = torch.nn.functional.pad(product, (0, -product.shape[1] % BLOCK), value=-torch.inf)
    blocks = product.unflatten(1, (-1, BLOCK))  # (q, n / BLOCK, BLOCK)
    row, block = (blocks.amax(2) >= floor[:, None]).nonzero(as_tuple=True)
    entry, offset = (blocks[row, block] >= floor[row, None]).nonzero(as_tuple=True)
    return row[entry], block[entry] * BLOCK + offset


def _cosine(queries: _Rows, row: Tensor, samples: _Rows, column: Tensor) -> Tensor:
    """The cosines of pairs of rows in float64, a bounded number of pairs at a time."""
    pairs = max(1, SCRATCH // (8 * queries.raw.shape[1]))
    parts = [
        (queries.raw[r].double() * samples.raw[c].double()).sum(1)
        / (queries.norm[r] * samples.norm[c])
        for r, c in zip(row.split(pairs), column.split(pairs))
    ]
    return torch.cat(parts)


def _merge(best: Tensor, index: Tensor, row: Tensor, value: Tensor, position: Tensor) -> None:
    """Merge new (row, value, position), sorted by row and position, into the sorted best k."""
    touched, group, counts = row.unique_consecutive(return_inverse=True, return_counts=True)
    if not len(touched):
        return
    k, first = best.shape[1], counts.cumsum(0) - counts
    slot = k + torch.arange(len(row), device=row.device) - first[group]
    values = best.new_full((len(touched), k + int(counts.max())), -torch.inf)
    positions = index.new_zeros(values.shape)
    values[:, :k], positions[:, :k] = best[touched], index[touched]
    values[group, slot], positions[group, slot] = value, position
    values, order = values.sort(dim=1, descending=True, stable=True)  # stable: earlier ones win
    best[touched] = values[:, :k]
    index[touched] = positions.gather(1, order[:, :k])


def _check(train, labels, test, ks: Sequence[int], temperatures: Sequence[float]) -> None:
    if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
        raise UserError(
            f'training features of shape {tuple(train.shape)} and test features of shape '
            f'{tuple(test.shape)} do not belong together: extract both with the same model.'
        )
    if len(labels) != len(train):
        raise UserError(f'{len(train)} training features have {len(labels)} labels: give one each.')
    if not len(test):
        raise UserError('there are 0 test features: give at least one.')
    for k in ks:
        if not 1 <= k <= len(train):
            raise UserError(f'k is {k}: choose 1 to {len(train)}, the number of training samples.')
    for t in temperatures:
        if not t > 0:
            raise UserError(f'temperature is {t}: choose a number above 0, such as 0.07.')


def _to_numpy(labels) -> np.ndarray:
    return labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
