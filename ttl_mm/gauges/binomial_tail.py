r"""How likely the rank-k negative of an anchor is a false one, if the features were perfect.

Perfect features put the images of the anchor's class first. The k-th nearest of m negatives is then
false exactly when the batch holds at least k more images of that class, whose share is p:

.. math:: P(m, k, p) = \sum_{j=k}^{m} \binom{m}{j} p^j (1-p)^{m-j}
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, gammaln, logsumexp

_SAFE = 1e-290  # well above the smallest float64: scipy's probabilities have all their digits


def overclustering_risk(m: int, k: int, p: float | Sequence[float]) -> float:
    """Chance that the rank-k negative of an anchor shares its class, under perfect features.

    Args:
        m: Number of negatives of an anchor, the batch on one device minus one.
        k: Rank of the deputy; 1 is the hardest.
        p: Share of the anchor's class, 1/C for C balanced classes; or the shares of all classes,
            whose risks are then averaged over the anchors.

    Example:
        >>> f'{overclustering_risk(m=104, k=5, p=1 / 1000):.6e}'
        '8.468544e-08'
    """
    return math.exp(log_overclustering_risk(m, k, p))


def log_overclustering_risk(m: int, k: int, p: float | Sequence[float]) -> float:
    """Natural logarithm of :func:`overclustering_risk`; does not underflow.

    >>> round(log_overclustering_risk(m=1, k=1, p=0.5), 4)  # ln 0.5
    -0.6931
    """
    if m < 0:
        raise ValueError(f'the number of negatives m must not be negative, got {m}')
    shares = np.asarray(p, dtype=np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f'the share p of a class lies in [0, 1], got {p}')
    if shares.ndim == 0:
        return _log_tail(m, k, shares.item())
    if not math.isclose(shares.sum(), 1, rel_tol=1e-6):
        raise ValueError(f'the shares p of all classes sum to 1, got {shares.sum()}')
    # an anchor is of class c with probability p_c, and so is each of its negatives
    shares, counts = np.unique(shares / shares.sum(), return_counts=True)
    tails = [_log_tail(m, k, share) for share in shares.tolist()]
    return min(0.0, float(logsumexp(tails, b=shares * counts)))


def smallest_safe_k(m: int, p: float | Sequence[float], risk: float) -> int:
    """Smallest rank k >= 1 with ``overclustering_risk(m, k, p) <= risk``.

    The answer m + 1 says that no rank of such a batch is safe.

    >>> smallest_safe_k(m=103, p=1 / 10, risk=0.01)
    19
    """
    if not 0 <= risk <= 1:
        raise ValueError(f'the bound on the risk is a probability, got {risk}')
    ranks = range(1, m + 1)  # the risk falls with k, and is 0 at m + 1
    return 1 + bisect_left(ranks, True, key=lambda k: overclustering_risk(m, k, p) <= risk)


def _log_tail(m: int, k: int, p: float) -> float:
    """Log of P(X >= k) for X ~ Binomial(m, p).

    scipy's incomplete beta function is this probability, to about 14 digits. It underflows from
    10^-308 on, and scipy.stats.binom.logsf, which takes the logarithm of it, gives -inf there; so
    the far tail is summed here, relative to its first term.
    """
    if k <= 0:
        return 0.0
    if k > m or p == 0:
        return -math.inf
    tail = betainc(k, m - k + 1, p)
    if tail > _SAFE:
        return math.log(tail)
    log_choose = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    log_first = log_choose + k * math.log(p) + (m - k) * math.log1p(-p)
    j = np.arange(k, m)
    ratios = (m - j) / (j + 1) * (p / (1 - p))  # of each term to the one before; all below 1
    return float(log_first + np.log1p(np.cumprod(ratios).sum()))
