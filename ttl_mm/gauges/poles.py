r"""The other side of k: how few poles satisfy the loss, which is what under-clustering is.

A rank-k deputy leaves the k - 1 nearest negatives alone. A network may therefore put up to k images
of a batch on one point ("pole") and pay nothing. For k = m/2 two opposite poles reach the global
minimum :math:`-\gamma - 1` of the loss: features of one bit.

The two sides of k mirror each other. Poles that hold 1/g of the images each violate rank k as often
as g perfectly separated classes do, so k is safe for C classes exactly when it allows C poles, and
the smallest safe k is the one that allows the fewest poles below C.
"""

from bisect import bisect_left

from ttl_mm.gauges.binomial_tail import overclustering_risk


def fewest_poles(m: int, k: int, risk: float) -> int:
    """Fewest equal poles that satisfy rank k in all but a share ``risk`` of the anchors.

    Fewer poles than classes mean that the loss does not ask for the classes to be separated.

    Args:
        m: Number of negatives of an anchor.
        k: Rank of the deputy, from 1 to m.
        risk: Share of the anchors, above 0 and below 1, whose deputy may lie on their own pole.

    >>> fewest_poles(m=103, k=19, risk=0.01)  # the smallest k that is safe for 10 classes
    10
    """
    if not 1 <= k <= m:
        raise ValueError(f'a rank among {m} negatives is 1..{m}, got {k}')
    if not 0 < risk < 1:
        raise ValueError(f'the bound on the risk lies between 0 and 1, got {risk}')

    def enough(poles: int) -> bool:
        return overclustering_risk(m, k, 1 / poles) <= risk

    most = 2  # one pole never satisfies the loss
    while not enough(most):
        most *= 2
    return bisect_left(range(most), True, lo=most // 2, key=enough)


def pole_loss(n: int, poles: int, ranks: tuple[int, int], gamma: float = 2.0) -> float:
    r"""Unclipped loss of a batch of n images spread evenly over poles, positives in place.

    The poles are as far apart as they can be, at the corners of a simplex with distance
    1/(poles - 1); an image has about n/poles - 1 negatives on its own pole at distance -1. With
    one pole this is the collapse value :math:`-\gamma + 1`, with two poles and
    :math:`lo \ge n/2` the global minimum :math:`-\gamma - 1`. Where the number of poles does not
    divide n, images of larger and smaller poles are averaged.

    Args:
        n: Images of a batch.
        poles: From 1 to n.
        ranks: (lo, hi) of the deputy.
        gamma: Weight of the positive.

    >>> pole_loss(n=8, poles=1, ranks=(4, 4)), pole_loss(n=8, poles=2, ranks=(4, 4))
    (-1.0, -3.0)
    """
    low, high = ranks
    if not 1 <= poles <= n or not 1 <= low <= high < n:
        raise ValueError(f'{poles} poles and ranks {ranks} do not fit a batch of {n} images')
    small, larger_poles = divmod(n, poles)
    away = 1 / (poles - 1) if poles > 1 else 0.0

    def deputy(size: int) -> float:
        """Mean distance over the ranks for an image whose pole holds ``size`` images."""
        on_own_pole = max(0, min(high, size - 1) - low + 1)
        others = high - low + 1 - on_own_pole
        return (others * away - on_own_pole) / (high - low + 1)

    in_larger = larger_poles * (small + 1) / n  # share of the images on poles with one more
    return -gamma - in_larger * deputy(small + 1) - (1 - in_larger) * deputy(small)
