"""A random permutation of 0..n-1 of which any part can be computed without the rest.

A shuffled list of 30 million indices takes time and memory in every rank. A Feistel network is a
bijection on 2b-bit numbers for any round function; applying it again until the value is below n
makes it a bijection on 0..n-1. So the entry at any position takes O(1) time and no memory.
"""

import numpy as np

ROUNDS = 8


def permuted(positions: np.ndarray, n: int, seed: tuple[int, ...]) -> np.ndarray:
    """The entries at ``positions`` of a permutation of 0..n-1 that ``seed`` selects.

    Args:
        positions: Integers in [0, n), any shape.
        n: Length of the permutation.
        seed: Non-negative integers that select the permutation.
    """
    keys = np.random.SeedSequence(seed).generate_state(ROUNDS, np.uint64)
    half_bits = max(1, -(-(n - 1).bit_length() // 2))
    values = _feistel(np.asarray(positions).astype(np.uint64), keys, half_bits)
    outside = values >= n
    while outside.any():  # the domain is less than 4n, so few steps are enough
        values[outside] = _feistel(values[outside], keys, half_bits)
        outside = values >= n
    return values.astype(np.int64)


def _feistel(values: np.ndarray, keys: np.ndarray, half_bits: int) -> np.ndarray:
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> bits, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << bits) | right


def _mix(x: np.ndarray) -> np.ndarray:
    """Spread every bit over the word: two multiply-xorshift steps modulo 2^64."""
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x81DADEF4BC2DD44D)
    return x ^ (x >> np.uint64(33))
