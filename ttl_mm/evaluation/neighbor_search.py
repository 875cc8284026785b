"""The exact k nearest neighbors by cosine similarity, in bounded memory.

Neighbors are ordered by their cosine in float64; of equal ones the earlier training sample comes
first. :func:`neighbors_by_definition` says the same in three lines of code.

How :func:`nearest_neighbors` is fast. The product of a tile of queries and a tile of training
samples runs in float32 into one buffer. Of each block of 64 products only the maximum is looked at:
a block whose maximum is below the query's k-th best product by more than the float32 error holds no
neighbor. What remains becomes a candidate of its query, and the last few candidates are decided in
float64. So the result does not depend on tile sizes or threads, and costs little more than the
matrix product.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from ttl_mm.errors import UserError

PANEL = 16384  # queries that share one pass over the training set
TILE_QUERIES, TILE_TRAIN, BLOCK = 8192, 4096, 64  # large tiles: threads rarely wait for each other
SLACK = 256  # candidates that a query may have beyond 2 k
PAIR_VALUES = 1 << 13  # float64 values decided at a time: they stay in the processor's cache

# unit round-off of a float32 product under torch.set_float32_matmul_precision(...)
ROUND_OFF = {'highest': 2.0**-24, 'high': 2.0**-11, 'medium': 2.0**-8}


def neighbors_by_definition(train: Tensor, test: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Similarities (Q, k) and training indices (Q, k), best first: sort everything, take k."""
    cosines = torch.stack([_cosine(query.repeat(len(train), 1), train) for query in test])  # (Q, N)
    similarity, index = cosines.sort(dim=1, descending=True, stable=True)
    return similarity[:, :k], index[:, :k]


def nearest_neighbors(
    train, test, k: int, device=None, least: float = -torch.inf
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what :func:`neighbors_by_definition` returns, one panel of queries after the other.

    Args:
        train: (N, D), a tensor or an array, memory-mapped if it is large.
        test: (Q, D), the same.
        k: at most N.
        device: where to compute; the device of ``train`` by default.
        least: cosine that is of interest. What is below it may be missing: then the similarity is
            -inf and the index means nothing. A high one saves time.
    """
    device = torch.device(device or getattr(train, 'device', 'cpu'))
    for start in range(0, len(test), PANEL):
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            found = _search_panel(train, test, start, k, device, least)
        yield found


def _search_panel(
    train, test, start: int, k: int, device: torch.device, least: float
) -> tuple[Tensor, Tensor]:
    """The neighbors of the panel of queries at ``start``, by one pass over the training set."""
    queries = _load(test, slice(start, start + PANEL), device)
    units = _unit(queries, start, 'test')
    tiles = [
        _Candidates(part, unit, train, k, least)
        for part, unit in zip(queries.split(TILE_QUERIES), units.split(TILE_QUERIES))
    ]
    step = max(TILE_TRAIN, k)  # so that the first tile holds k candidates
    buffer = units.new_empty(len(tiles[0].units) * min(len(train), step))
    for left in range(0, len(train), step):
        samples = _unit(_load(train, slice(left, left + step), device), left, 'training')
        for tile in tiles:
            product = buffer[: len(tile.units) * len(samples)].view(-1, len(samples))
            torch.mm(tile.units, samples.T, out=product)  # (q, n)
            if left == 0 and least == -torch.inf:
                tile.floor = product.topk(k, dim=1).values[:, -1] - 2 * tile.error
            row, column = _at_least(product, tile.floor)
            tile.add(row, product[row, column], column + left)
    values, indices = zip(*(tile.best() for tile in tiles))
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
        product = pad(product, (0, missing), value=-torch.inf)
    blocks = product.view(len(product), -1, BLOCK)  # (q, n / BLOCK, BLOCK)
    row, block = (blocks.amax(2) >= floor[:, None]).nonzero(as_tuple=True)
    some = blocks.flatten(0, 1).index_select(0, row * blocks.shape[1] + block)
    entry, offset = (some >= floor[row, None]).nonzero(as_tuple=True)
    return row[entry], block[entry] * BLOCK + offset


class _Candidates:
    """For each query of a tile, a superset of its k nearest among the training samples seen.

    A float32 value is within ``error`` of the exact cosine. At least k samples then have a cosine
    of (k-th best value - error) or more, so a sample whose value is below the floor, (k-th best
    value - 2 error), is no neighbor.

    Attributes:
        value, index: (q, 2 k + SLACK) float32 similarities and training indices of the candidates.
        size: (q,) how many of these places are taken, from the left; the others hold -inf.
        floor: (q,) what a new value must reach.
    """

    def __init__(self, queries: Tensor, units: Tensor, train, k: int, least: float) -> None:
        (count, dim), device = queries.shape, queries.device
        self.queries, self.units, self.train, self.k = queries, units, train, k
        # rounding of both norms, of the unit vectors and the floor, then of dim multiply-adds
        self.error = 2 * (dim + 8) * ROUND_OFF[torch.get_float32_matmul_precision()]
        self.value = torch.full((count, 2 * k + SLACK), -torch.inf, device=device)
        self.index = torch.zeros_like(self.value, dtype=torch.int64)
        self.size = torch.zeros(count, dtype=torch.int64, device=device)
        self.floor = self.value.new_full((count,), least - 2 * self.error)

    def add(self, row: Tensor, value: Tensor, index: Tensor) -> None:
        """Add entries (n,) each, sorted by row; rows with too few free places are thinned out."""
        count = row.bincount(minlength=len(self.size))  # (q,) new entries of each row
        number = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        place = self.size[row] + number
        full = self.size + count > self.value.shape[1]  # (q,)
        if full.any():
            into_full = full[row]
            entries = (x[into_full] for x in (row, place, value, index))
            self._add_and_thin_out(full, *entries)
            row, place, value, index = (x[~into_full] for x in (row, place, value, index))
            count[full] = 0
        self.value[row, place] = value
        self.index[row, place] = index
        self.size += count

    def _add_and_thin_out(
        self, full: Tensor, row: Tensor, place: Tensor, value: Tensor, index: Tensor
    ) -> None:
        """Add entries of the rows ``full`` to a wider copy, and keep what reaches the new floor."""
        slot = (full.cumsum(0) - 1)[row]  # which of the full rows an entry belongs to
        full = full.nonzero()[:, 0]
        missing = int(place.max()) + 1 - self.value.shape[1]
        values = pad(self.value[full], (0, missing), value=-torch.inf)
        indices = pad(self.index[full], (0, missing))
        values[slot, place] = value
        indices[slot, place] = index
        values, order = values.sort(dim=1, descending=True)
        indices = indices.gather(1, order)
        keep = values >= values[:, self.k - 1 : self.k] - 2 * self.error
        crowded = (keep.sum(1) > 2 * self.k + SLACK // 2).nonzero()[:, 0]
        for i in crowded.split(TILE_QUERIES):  # many near-ties: decide them now
            exact, indices[i, : self.k] = self._decide(full[i], indices[i], keep[i])
            values[i, : self.k] = exact.float()
            keep[i, self.k :] = False
        values.masked_fill_(~keep, -torch.inf)
        width = self.value.shape[1]
        self.value[full], self.index[full] = values[:, :width], indices[:, :width]
        self.size[full] = keep.sum(1)
        self.floor[full] = values[:, self.k - 1] - 2 * self.error

    def best(self) -> tuple[Tensor, Tensor]:
        """The exact similarities and the indices of the k nearest, (q, k) each, best first."""
        keep = self.value >= self.value.topk(self.k).values[:, -1:] - 2 * self.error
        keep &= self.value > -torch.inf  # places that are not taken
        return self._decide(torch.arange(len(keep), device=keep.device), self.index, keep)

    def _decide(self, rows: Tensor, index: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """The k nearest of the candidates to keep: by the cosine in float64, then by the index."""
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
