"""Which images validate, where the data do not say it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.evaluation import data

HOW = 'a fifth of the images, chosen by the hash of their names'


def hold_out(images: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Four fifths to train on, and the fifth with the smallest SHA-256 of the names of files.

    Args:
        images: Each has a ``path``.
    """
    if len(images) < 2:
        raise UserError(f'{len(images)} image: two are needed, one to train on and one to test on.')
    names = [image.path.name for image in images]
    chosen = data.hold_out(names, np.zeros(len(names)), ['any'])
    parts = (~chosen, chosen)
    train, val = ([images[i] for i in np.flatnonzero(part)] for part in parts)
    return train, val
