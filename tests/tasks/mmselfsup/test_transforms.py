"""Patches of Relative-Loc, and views packed for mmselfsup."""

import numpy as np
import pytest
import torch

from ttl_mm.errors import UserError

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip
from ttl_mm.tasks.mmselfsup.transforms import PackSelfSupViews, PatchesWithLabels


def transformed(side: int, jitter: int) -> dict:
    """Nine patches of an image whose pixels are (row, column, 0)."""
    rows, columns = np.mgrid[:side, :side]
    image = np.stack([rows, columns, 0 * rows], axis=2).astype(np.uint8)
    return PatchesWithLabels(jitter)({'img': image, 'rng': np.random.default_rng(0)})


def test_cells_of_the_neighbors_in_the_order_of_mmselfsup():
    results = transformed(36, jitter=3)
    assert [patch.shape for patch in results['img']] == [(9, 9, 3)] * 9
    cells = [tuple(patch[..., :2].mean(axis=(0, 1)) // 12) for patch in results['img']]
    # the middle first, then column by column
    assert cells == [(1, 1), (0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2), (2, 2)]
    assert results['patch_label'].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    offsets = set()
    for patch in results['img']:  # each lies in its cell, at a random place
        for axis in (0, 1):
            inside = patch[..., axis] % 12
            assert np.ptp(inside) == 8
            offsets.add(int(inside.min()))
    assert offsets == {0, 1, 2, 3}
    with pytest.raises(UserError, match='jitter=21 leaves no patch of an image of 32 x 32'):
        transformed(32, jitter=21)


def test_views_are_packed_as_they_are():
    views = [torch.zeros(3, 8, 8), torch.ones(3, 6, 6)]
    pack = PackSelfSupViews(algorithm_keys=['sample_idx'], meta_keys=['img_path'])
    packed = pack({'img': list(views), 'sample_idx': 7, 'img_path': 'a.png'})
    assert list(packed) == ['inputs', 'data_samples']  # the order that mmselfsup relies on
    assert all(found is view for found, view in zip(packed['inputs'], views, strict=True))
    assert packed['data_samples'].sample_idx.value.tolist() == [7]
    assert packed['data_samples'].img_path == 'a.png'
