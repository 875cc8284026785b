"""Where each framework keeps the backbone, and what it calls its tensors.

The house names are those of mmpretrain's ResNet (``conv1``, ``bn1``, ``layer1.0.conv1``,
``layer1.0.downsample.0`` ...). mmdet, torchvision, timm, OpenSelfSup, mmselfsup and the authors'
files use the same names, below a prefix; detectron2 has names of its own.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ttl_mm.errors import UserError

# In order of preference: a file of the authors or of OpenSelfSup holds the online backbone twice
# (``backbone.`` and ``online_net.0.``) and the target beside it.
PREFIXES = {
    'backbone.': 'ttl_mm, mmpretrain, mmdet, mmselfsup, OpenSelfSup, the authors',
    'online_net.0.': 'the authors, OpenSelfSup BYOL',
    'encoder_q.0.': 'OpenSelfSup MoCo',
    'encoder_q.': 'MoCo v1 and v2',
    'base_encoder.': 'MoCo v3',
    '': 'torchvision, timm, a bare backbone',
}
BACKBONE = re.compile(r'(conv1|bn1|stem|layer\d+)\.')
_ANCHOR = 'layer1.0.conv1.weight'
_WRAPPERS = ('module.', 'model.')  # DataParallel and Lightning


def unwrap(names: Iterable[str]) -> str:
    """The wrapper prefix that every name carries, for instance ``module.``; '' if none."""
    names, found = list(names), ''
    while names and (
        deeper := next((w for w in _WRAPPERS if all(n.startswith(found + w) for n in names)), '')
    ):
        found += deeper
    return found


def backbone_prefixes(names: Iterable[str]) -> list[str]:
    """Every prefix below which a ResNet lies, sorted."""
    return sorted(n.removesuffix(_ANCHOR) for n in names if f'.{n}'.endswith(f'.{_ANCHOR}'))


_DEPTHS: dict[tuple[bool, tuple[int, ...]], int] = {  # (bottleneck, blocks per stage) -> depth
    (False, (2, 2, 2, 2)): 18,
    (False, (3, 4, 6, 3)): 34,
    (True, (3, 4, 6, 3)): 50,
    (True, (3, 4, 23, 3)): 101,
    (True, (3, 8, 36, 3)): 152,
}


def backbone_config(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The mmpretrain config of the ResNet with tensors of these shapes; None if it is not known.

    Strides leave no trace in the shapes: they are taken to be the usual ones (``style='pytorch'``,
    which every framework here uses).
    """
    matches = [re.match(r'layer(\d)\.(\d+)\.', name) for name in shapes]
    blocks = {(int(found[1]), int(found[2])) for found in matches if found}
    stages = tuple(sum(stage == s for s, _ in blocks) for stage in sorted({s for s, _ in blocks}))
    depth = _DEPTHS.get(('layer1.0.conv3.weight' in shapes, stages))
    stem = shapes.get('conv1.weight') or shapes.get('stem.2.conv.weight')
    first = shapes.get('layer1.0.conv1.weight')
    if depth is None or not stem or not first:  # () is the shape of a single number
        return None
    width = first[0]
    last = shapes.get('layer1.0.conv3.weight', (4 * width,))[:1]
    if last != (4 * width,):  # ResNeXt, Wide ResNet
        return None
    config = {'type': 'mmpretrain.ResNet', 'depth': depth}
    if (stem[0], width) != (64, 64):
        config |= {'stem_channels': stem[0], 'base_channels': width}
    if shapes.get('stem.0.conv.weight', stem)[1:2] != (3,):
        config['in_channels'] = shapes.get('stem.0.conv.weight', stem)[1]
    if 'stem.2.conv.weight' in shapes:
        config['deep_stem'] = True
    elif stem[-1] == 3:
        config['type'] = 'mmpretrain.ResNet_CIFAR'
    if 'layer2.0.downsample.2.weight' in shapes:
        config['avg_down'] = True
    return config


def architecture(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """A name for the network that tensors of these shapes form, such as ``ResNet-50``."""
    config = backbone_config(shapes)
    if config is None:
        n_blocks = len({found[0] for n in shapes if (found := re.match(r'layer\d+\.\d+\.', n))})
        return f'network of {n_blocks} residual blocks'
    details = [f'{config["base_channels"]} channels'] if 'base_channels' in config else []
    details += [f'{config["in_channels"]} input channels'] if 'in_channels' in config else []
    details += ['3x3 stem'] if config['type'].endswith('CIFAR') else []
    details += ['deep stem'] if 'deep_stem' in config else []
    details += ['pooled shortcuts'] if 'avg_down' in config else []
    return f'ResNet-{config["depth"]}' + (f' ({", ".join(details)})' if details else '')


_TO_D2: list[tuple[re.Pattern[str], Any]] = [
    (re.compile(r'^(conv|bn)'), r'stem.\1'),
    (re.compile(r'^layer(\d)'), lambda found: f'res{int(found[1]) + 1}'),
    (re.compile(r'\bbn(\d)\.'), r'conv\1.norm.'),
    (re.compile(r'\.downsample\.0\.'), '.shortcut.'),
    (re.compile(r'\.downsample\.1\.'), '.shortcut.norm.'),
]


def to_detectron2(name: str) -> str:
    """``layer1.0.bn1.weight`` -> ``res2.0.conv1.norm.weight``, and so on."""
    renamed = name
    for pattern, replacement in _TO_D2:
        renamed = pattern.sub(replacement, renamed)
    if from_detectron2(renamed) != name:
        raise UserError(f'detectron2 has no name for {name}: its ResNet has no such layer.')
    return renamed


_D2_NAME = re.compile(r'(?:stem|res(\d)\.(\d+))\.(?:conv(\d)|shortcut)\.(norm\.)?(\w+)')


def from_detectron2(name: str) -> str | None:
    """The inverse of :func:`to_detectron2`; None for a name outside the backbone."""
    found = _D2_NAME.fullmatch(name)
    if found is None:
        return None
    stage, block, number, norm, rest = found.groups()
    where = f'layer{int(stage) - 1}.{block}.' if stage else ''
    if number is None:
        return f'{where}downsample.{1 if norm else 0}.{rest}'
    return f'{where}{"bn" if norm else "conv"}{number}.{rest}'
