import random

import numpy as np
import torch

from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state


def draw():
    return random.gauss(0, 1), random.random(), np.random.randn(3).tolist(), torch.rand(3).tolist()


def test_all_generators_continue(tmp_path):
    np.random.randn()  # leaves a second normal number in the cache of NumPy
    random.gauss(0, 1)
    torch.save(get_rng_state(), tmp_path / 'x.pth')
    first = draw()
    set_rng_state(torch.load(tmp_path / 'x.pth', weights_only=True))
    assert draw() == first
