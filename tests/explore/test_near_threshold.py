from pathlib import Path

import numpy as np
import torch

from ttl_mm.explore import near_threshold
from ttl_mm.explore.embedding import Embedding


def test_many_real_duplicates_do_not_raise_the_threshold(monkeypatch):
    """A third of the images are duplicates; an altered copy is as near as one of these."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 32))
    rows[200:] = rows[:100] + 0.1 * rng.normal(size=(100, 32))
    rows = rows.astype(np.float32)
    embedding = Embedding(rows, [f'{i}.jpg' for i in range(300)], Path())
    copies = torch.from_numpy(rows + 0.1 * rng.normal(size=rows.shape).astype(np.float32))
    monkeypatch.setattr(near_threshold, '_features_of_copies', lambda *_: copies)
    limit = near_threshold.find_threshold(embedding, 'weights.pth')
    units = rows - rows.mean(axis=0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = units @ units.T
    planted = cosines[np.arange(200, 300), np.arange(100)]
    ordinary = np.sort(cosines, axis=1)[:, -3]
    assert ordinary.max() < limit.cosine < planted.min()
    assert abs(limit.flagged - 200 / 300) < 1e-6
