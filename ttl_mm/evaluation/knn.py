"""Exact weighted k-nearest-neighbour classification in bounded memory.

The similarity of a query q and a training sample x is their cosine, decided in float64; the vote of
a neighbour is exp(similarity / temperature). Ties follow one rule:

* neighbours are ordered by similarity, equal ones by their position in the training set, so the
  earlier sample wins the k-th place;
* among labels with equal votes the smallest wins.

How it is fast. The product of a tile of queries and a tile of training samples runs in float32
into one buffer. Of each block of 64 products only the maximum is looked at: a block whose
maximum is below the query's k-th best product by more than the float32 error holds no neighbour.
What remains goes into a small pool per query, of which the last few are decided in float64. So the
result does not depend on tile sizes or threads, and costs little more than the matrix product.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ttl_mm.errors import UserError

PANEL = 16384  # queries that share one pass over the training set
TILE_QUERIES, TILE_TRAIN, BLOCK = 8192, 4096, 64  # large: few hand-overs between threads
SLACK = 256  # places of a pool beyond 2 k
PAIR_VALUES = 1 << 13  # doubles at a time where pairs are decided: small arrays stay in the cache
VOTES = 1 << 23  # (query, class) sums at a time

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
            found = _panel(train, test, start, k, device)
        yield found


def weighted_vote(similarity: Tensor, labels: Tensor, num_classes: int, temperature: float):
    """The label (q,) with the largest sum of exp(similarity / temperature), (q, k) each."""
    weight = (
        (similarity - similarity[:, :1]) / temperature
    ).exp()  # the best counts 1: no overflow
    winners = []
    for w, c in zip(*(x.split(max(1, VOTES // num_classes)) for x in (weight, labels))):
        votes = w.new_zeros(len(w), num_classes)
        for j in range(w.shape[1]):  # one neighbour at a time: a fixed order of summation
            votes.scatter_add_(1, c[:, j : j + 1], w[:, j : j + 1])
        winners.append(votes.argmax(1))  # the first of equal maxima
    return torch.cat(winners)


def _panel(train, test, start: int, k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The neighbours of the panel of queries at ``start``, by one pass over the training set."""
    queries = _load(test, slice(start, start + PANEL), device)
    pools = [
        _Pool(part, unit, train, k)
        for part, unit in zip(
            queries.split(TILE_QUERIES), _unit(queries, start, 'test').split(TILE_QUERIES)
        )
    ]
    tile = max(TILE_TRAIN, k)  # so that the first tile fills all k places
    buffer = pools[0].units.new_empty(len(pools[0].units) * min(len(train), tile))
    for left in range(0, len(train), tile):
        samples = _unit(_load(train, slice(left, left + tile), device), left, 'training')
        for pool in pools:
            product = buffer[: len(pool.units) * len(samples)].view(-1, len(samples))
            torch.mm(pool.units, samples.T, out=product)  # (q, n)
            if left == 0:
                pool.floor = product.topk(k, dim=1).values[:, -1] - 2 * pool.error
            row, column = _at_least(product, pool.floor)
            pool.add(row, product[row, column], column + left)
    values, indices = zip(*(pool.best() for pool in pools))
    return torch.cat(values), torch.cat(indices)


def _load(matrix, rows: slice | Tensor, device: torch.device) -> Tensor:
    """Rows of a tensor or of an array, on the device."""
    if isinstance(rows, slice):
        found = matrix[rows]
    elif isinstance(matrix, Tensor):
        found = matrix.index_select(0, rows.to(matrix.device))
    else:
        found = matrix[rows.cpu().numpy()]
    return (found if isinstance(found, Tensor) else torch.tensor(found)).to(device)


def _unit(rows: Tensor, start: int, what: str) -> Tensor:
    """The rows scaled to length 1, in float32; a zero vector stays one."""
    rows = rows if rows.dtype == torch.float64 else rows.float()
    norm = torch.linalg.vector_norm(rows, dim=1)
    if not ((norm > 1e-15) & (norm < 1e15)).all():  # rare: empty, or at the ends of float32
        rows = rows.double()
        norm = torch.linalg.vector_norm(rows, dim=1)
        if not norm.isfinite().all():
            bad = start + int(norm.isfinite().logical_not().nonzero()[0])
            raise UserError(
                f'row {bad} of the {what} features holds NaN or infinity: check the checkpoint '
                'and extract the features again.'
            )
        norm = norm.where(norm > 0, 1.0)
    return (rows / norm[:, None]).float()


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosines (n,) of the rows of a and b, (n, D) each; equal rows give equal values."""
    a, b = a.double(), b.double()
    norms = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    return a.mul_(b).sum(1) / norms.where(norms > 0, 1.0)


def _at_least(product: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of the entries not below the floor (q,) of their row, in order."""
    if missing := -product.shape[1] % BLOCK:  # the last tile
        product = torch.nn.functional.pad(product, (0, missing), value=-torch.inf)
    blocks = product.view(len(product), -1, BLOCK)  # (q, n / BLOCK, BLOCK)
    row, block = (blocks.amax(2) >= floor[:, None]).nonzero(as_tuple=True)
    some = blocks.flatten(0, 1).index_select(0, row * blocks.shape[1] + block)
    entry, offset = (some >= floor[row, None]).nonzero(as_tuple=True)
    return row[entry], block[entry] * BLOCK + offset


class _Pool:
    """For each query, a superset of its k nearest among the training samples seen.

    A value is within ``error`` of the exact cosine. At least k samples are then at or above
    (k-th best value - error), so a value below (k-th best value - 2 error), the floor, is out.
    """

    def __init__(self, queries: Tensor, units: Tensor, train, k: int) -> None:
        (count, dim), device = queries.shape, queries.device
        self.queries, self.units, self.train, self.k = queries, units, train, k
        # rounding of both norms, of the unit vectors and the floor, then of dim multiply-adds
        self.error = 2 * (dim + 8) * ROUND_OFF[torch.get_float32_matmul_precision()]
        self.value = torch.full((count, 2 * k + SLACK), -torch.inf, device=device)
        self.index = torch.zeros_like(self.value, dtype=torch.int64)
        self.size = torch.zeros(count, dtype=torch.int64, device=device)
        self.floor = self.value.new_full((count,), -torch.inf)

    def add(self, row: Tensor, value: Tensor, index: Tensor) -> None:
        """Add entries sorted by row; a row whose places run out is shrunk."""
        count = row.bincount(minlength=len(self.size))
        rank = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        place = self.size[row] + rank
        full = (self.size + count > self.value.shape[1]).nonzero()[:, 0]
        if len(full):
            extra = int(count[full].max())
            slot = self.size.new_full(self.size.shape, -1)
            slot[full] = torch.arange(len(full), device=row.device)
            new = slot[row] >= 0
            values = torch.nn.functional.pad(self.value[full], (0, extra), value=-torch.inf)
            indices = torch.nn.functional.pad(self.index[full], (0, extra))
            values[slot[row[new]], place[new]] = value[new]
            indices[slot[row[new]], place[new]] = index[new]
            self._shrink(full, values, indices)
            row, place, value, index = (x[~new] for x in (row, place, value, index))
            count[full] = 0
        self.value[row, place] = value
        self.index[row, place] = index
        self.size += count

    def _shrink(self, rows: Tensor, value: Tensor, index: Tensor) -> None:
        """Drop what is below the floor; rows that stay too long are decided exactly."""
        value, order = value.sort(dim=1, descending=True)
        index = index.gather(1, order)
        keep = value >= value[:, self.k - 1 : self.k] - 2 * self.error
        for i in (keep.sum(1) > 2 * self.k + SLACK // 2).nonzero()[:, 0].split(TILE_QUERIES):
            exact, index[i, : self.k] = self._exact(rows[i], index[i], keep[i])
            value[i, : self.k] = exact.float()
            keep[i, self.k :] = False
        value.masked_fill_(~keep, -torch.inf)
        width = self.value.shape[1]
        self.value[rows], self.index[rows] = value[:, :width], index[:, :width]
        self.size[rows] = keep.sum(1)
        self.floor[rows] = value[:, self.k - 1] - 2 * self.error

    def best(self) -> tuple[Tensor, Tensor]:
        """The exact similarities and the indices of the k nearest, (q, k) each, best first."""
        keep = self.value >= self.value.topk(self.k).values[:, -1:] - 2 * self.error
        return self._exact(torch.arange(len(keep), device=keep.device), self.index, keep)

    def _exact(self, rows: Tensor, index: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """The k nearest of the kept entries, decided in float64, then by the index."""
        row, place = keep.nonzero(as_tuple=True)
        step = max(1, PAIR_VALUES // self.queries.shape[1] << 10 * self.queries.is_cuda)
        values = [
            _cosine(self.queries.index_select(0, r), _load(self.train, i, r.device))
            for r, i in zip(rows[row].split(step), index[row, place].split(step))
        ]
        value = torch.full_like(index, -torch.inf, dtype=torch.float64)
        value[row, place] = torch.cat(values)
        index, order = index.sort(dim=1)
        value, best = value.gather(1, order).sort(dim=1, descending=True, stable=True)
        return value[:, : self.k], index.gather(1, best[:, : self.k])


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
