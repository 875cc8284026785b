"""The networks that a manifest can describe, and the values that it may give to their options.

A manifest comes from whoever wrote it. It says which of these networks a file holds; it cannot name
a class, a function or a module.
"""

from collections.abc import Container
from typing import Any

_CHANNELS = range(1, 257)
_SWITCH = (False, True)
_RESNET: dict[str, Container] = {
    'depth': (18, 34, 50, 101, 152),
    'stem_channels': _CHANNELS,
    'base_channels': _CHANNELS,
    'deep_stem': _SWITCH,
    'avg_down': _SWITCH,
}
ARCHITECTURES: dict[str, dict[str, Container]] = {
    'mmpretrain.ResNet': _RESNET,
    'mmpretrain.ResNet_CIFAR': _RESNET,
}


def checked_architecture(described: Any) -> dict[str, Any]:
    """The config of a network, made of nothing but known names and values.

    Raises:
        ValueError: Something else is described; the message says what.
    """
    kind = described.get('type') if isinstance(described, dict) else None
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise ValueError(f'its backbone {_short(kind)} is none of {", ".join(ARCHITECTURES)}')
    options: dict[str, Any] = {'type': kind}
    for name, value in described.items():
        if name == 'type':
            continue
        allowed = ARCHITECTURES[kind].get(name)
        if allowed is None:
            raise ValueError(f'its backbone has the unknown option {_short(name)}')
        fits = type(value) is (bool if allowed is _SWITCH else int)  # 1.0 and True equal 1
        if not fits or value not in allowed:
            raise ValueError(f'its backbone has {name}={_short(value)}')
        options[name] = value
    if 'depth' not in options:
        raise ValueError('its backbone has no depth')
    return options


def _short(value: Any) -> str:
    return repr(value)[:60]
