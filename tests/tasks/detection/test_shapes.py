"""What pycocotools is given can be drawn."""

from itertools import pairwise

import numpy as np
import pytest
from pycocotools import mask

from ttl_mm.tasks.detection.shapes import shape_fault


def runs_of(drawn):
    """Lengths of the runs of equal pixels in column order, the first one of zeros."""
    flat = drawn.T.ravel()
    ends = np.flatnonzero(np.diff(flat)) + 1
    edges = [*([0] if flat[0] else []), 0, *ends.tolist(), flat.size]
    return [b - a for a, b in pairwise(edges)]


def test_run_lengths_of_pycocotools_are_taken_as_text_and_as_numbers():
    rng = np.random.default_rng(0)
    for _ in range(200):
        height, width = (int(n) for n in rng.integers(1, 80, 2))
        drawn = (rng.random((height, width)) < rng.random()).astype(np.uint8)
        packed = mask.encode(np.asfortranarray(drawn))['counts'].decode()
        for counts in (packed, runs_of(drawn)):
            shape = {'size': [height, width], 'counts': counts}
            assert shape_fault(shape, width, height) == ''
            assert 'size' in shape_fault(shape, width + 1, height)
            more = counts + '1' if counts is packed else [*counts, 1]
            assert shape_fault({**shape, 'counts': more}, width, height)


@pytest.mark.parametrize(
    'shape',
    [
        [[0, 0, 1e9, 1e9, 0, 1e9]],  # each of these three ended the process
        [[0, 0, 1e18, 1e18, 0, 1e18]],
        {'size': [10**5, 10**5], 'counts': [3, 4]},
        {'size': [4, 4], 'counts': [3]},  # and this one showed memory
        {'size': [4, 4], 'counts': [3, 10**9]},
        {'size': [4, 4], 'counts': [-5, 21]},
        {'size': [4, 4], 'counts': '\x7f' * 50},
        {'size': [4, 4], 'counts': 'o' * 1000},
        {'size': [4, 4], 'counts': None},
        {'size': [4, 4]},
        [[0, 0, float('nan'), 1, 2, 2]],
        [[0, 0, 4, 4]],  # pycocotools takes it for a box
        [[0, 0, 1, 1, 2, '2']],
        [[]],
        [],
        [3],
        'abc',
        7,
    ],
)
def test_what_cannot_be_drawn_is_named(shape):
    assert shape_fault(shape, 4, 4)
    assert shape_fault([[0, 0, 4.5, -0.5, 4, 4]], 4, 4) == ''
