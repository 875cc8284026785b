r"""How likely the rank-k negative of an anchor is a false one, if the features were perfect.

Perfect features put the images of the anchor's class first. The k-th nearest of m negatives is then
false exactly when the batch holds at least k more images of that class, whose share is p:

.. math:: P(m, k, p) = \sum_{j=k}^{m} \binom{m}{j} p^j (1-p)^{m-j}
"""

import math
from collections.abc import Sequence

import numpy as np


def overclustering_risk(m: int, k: int, p: float | Sequence[float]) -> float:
    """Chance that the rank-k negative of an anchor shares its class, under perfect features.

    Args:
        m: Number of negatives of an anchor, the batch on one device minus one.
        k: Rank of the deputy, 1 is the hardest.
        p: Share of the anchor's class, 1/C for C balanced classes; or the shares of all classes,
            whose risks are then averaged over the anchors.
    """
    return math.exp(log_overclustering_risk(m, k, p))


def log_overclustering_risk(m: int, k: int, p: float | Sequence[float]) -> float:
    """Natural logarithm of :func:`overclustering_risk`; does not underflow."""
    if m < 0:
        raise ValueError(f'the number of negatives m must not be negative, got {m}')
    if np.ndim(p) == 0:
        return _log_tail(m, k, _checked_share(p))
    # an anchor is of class c with probability p_c, and so is each of its negatives
    shares, counts = np.unique(_checked_shares(p), return_counts=True)
    terms = [
        math.log(share * count) + _log_tail(m, k, share)
        for share, count in zip(shares.tolist(), counts.tolist())
        if share > 0
    ]
    largest = max(terms)
    if largest == -math.inf:
        return largest
    return min(0.0, largest + math.log(math.fsum(math.exp(t - largest) for t in terms)))


def smallest_safe_k(m: int, p: float | Sequence[float], risk: float) -> int:
    """Smallest rank k >= 1 with ``overclustering_risk(m, k, p) <= risk``.

    The answer m + 1 says that no rank of such a batch is safe.
    """
    if not 0 <= risk <= 1:
        raise ValueError(f'the bound on the risk is a probability, got {risk}')
    low, high = 1, m + 1  # the risk falls with k, and is 0 at m + 1
    while low < high:
        middle = (low + high) // 2
        if overclustering_risk(m, middle, p) <= risk:
            high = middle
        else:
            low = middle + 1
    return low


def _log_tail(m: int, k: int, p: float) -> float:
    """Log of P(X >= k) for X ~ Binomial(m, p), summed away from the mode: nothing cancels."""
    if k <= 0:
        return 0.0
    if k > m or p == 0:
        return -math.inf
    if p == 1:
        return 0.0
    if k > m * p:  # the terms fall from k upwards
        return _log_pmf(m, k, p) + _log_falling_sum(
            (m - j) * p / ((j + 1) * (1 - p)) for j in range(k, m)
        )
    # below the mean: the terms fall from k - 1 downwards, and the tail is one minus their sum
    log_head = _log_pmf(m, k - 1, p) + _log_falling_sum(
        j * (1 - p) / ((m - j + 1) * p) for j in range(k - 1, 0, -1)
    )
    return math.log1p(-math.exp(log_head))


def _log_pmf(m: int, j: int, p: float) -> float:
    log_choose = math.lgamma(m + 1) - math.lgamma(j + 1) - math.lgamma(m - j + 1)
    return log_choose + j * math.log(p) + (m - j) * math.log1p(-p)


def _log_falling_sum(ratios) -> float:
    """Log of 1 + r1 + r1 r2 + ... for falling ratios below about one; stops when a term is lost."""
    total = term = 1.0
    for ratio in ratios:
        term *= ratio
        if term < total * 1e-17:
            break
        total += term
    return math.log(total)


def _checked_share(p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError(f'the share p of a class lies in [0, 1], got {p}')
    return float(p)


def _checked_shares(p: Sequence[float]) -> np.ndarray:
    shares = np.asarray(p, dtype=np.float64)
    if not (shares >= 0).all() or not math.isclose(shares.sum(), 1, rel_tol=1e-6):
        raise ValueError(f'the shares of all classes are >= 0 and sum to 1, got {shares.sum()}')
    return shares / shares.sum()
