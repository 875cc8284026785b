"""Reduce values to what ``torch.load(weights_only=True)`` reads: numbers, text, tensors."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch


def to_plain_types(value: Any) -> Any:
    """Containers become dict, list or tuple, NumPy values numbers or tensors (on the CPU).

    Raises:
        TypeError: The value holds anything else.
    """
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)  # a subclass, such as numpy.float64, would not be read back
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return to_plain_types(value.item())
    if isinstance(value, Mapping):
        return {to_plain_types(key): to_plain_types(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(to_plain_types(item) for item in value)
    if isinstance(value, (list, set, frozenset)):
        return [to_plain_types(item) for item in value]
    raise TypeError(f'a {type(value).__name__} cannot go into a checkpoint')


def keep_plain_types(items: Mapping[str, Any]) -> dict[str, Any]:
    """The items that are plain; the others are left out."""
    kept = {}
    for key, value in items.items():
        with suppress(TypeError):
            kept[key] = to_plain_types(value)
    return kept
