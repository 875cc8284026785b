"""The state of every random generator of a process, as tensors."""

import random
from typing import Any

import numpy as np
import torch


def get_rng_state() -> dict[str, Any]:
    """The state of Python's, NumPy's and torch's generators, and of this rank's GPU."""
    version, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    return {
        'python': {'version': version, 'words': torch.tensor(words), 'gauss': gauss},
        'numpy': {
            'kind': numpy['bit_generator'],
            'keys': torch.from_numpy(numpy['state']['key'].astype(np.int64)),
            'position': numpy['state']['pos'],
            'has_gauss': numpy['has_gauss'],
            'cached': numpy['gauss'],
        },
        'torch': torch.get_rng_state(),
        'cuda': torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Continue every generator where :func:`get_rng_state` saw it."""
    python, numpy = state['python'], state['numpy']
    random.setstate((python['version'], tuple(python['words'].tolist()), python['gauss']))
    keys = numpy['keys'].numpy().astype(np.uint32)
    np.random.set_state(
        (numpy['kind'], keys, numpy['position'], numpy['has_gauss'], numpy['cached'])
    )
    torch.set_rng_state(state['torch'].cpu())
    if torch.cuda.is_available() and state['cuda'] is not None:
        torch.cuda.set_rng_state(state['cuda'].cpu())
