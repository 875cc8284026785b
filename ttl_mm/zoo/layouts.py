"""Where each framework keeps the backbone, and what it calls its tensors.

The house names are those of mmpretrain's ResNet (``conv1``, ``bn1``, ``layer1.0.conv1``,
``layer1.0.downsample.0`` ...). mmdet, torchvision, timm, OpenSelfSup, mmselfsup and the authors'
files use the same names, below a prefix; detectron2 has names of its own.
"""

import re
from collections.abc import Iterable, Mapping

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
    names = list(names)
    found = ''
    while True:
        deeper = next((w for w in _WRAPPERS if all(n.startswith(found + w) for n in names)), None)
        if deeper is None or not names:
            return found
        found += deeper


def backbone_prefixes(names: Iterable[str]) -> list[str]:
    """Every prefix below which a ResNet lies, sorted."""
    return sorted(n.removesuffix(_ANCHOR) for n in names if _ends_with_anchor(n))


def _ends_with_anchor(name: str) -> bool:
    return name == _ANCHOR or name.endswith('.' + _ANCHOR)


def architecture(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """A name for the ResNet that tensors of these shapes form, such as ``ResNet-50``."""
    stages = sorted({m[1] for n in shapes if (m := re.match(r'layer(\d+)\.', n))}, key=int)
    blocks = tuple(
        len({m[1] for n in shapes if (m := re.match(rf'layer{s}\.(\d+)\.', n))}) for s in stages
    )
    bottleneck = 'layer1.0.conv3.weight' in shapes
    known = {
        (False, (2, 2, 2, 2)): 'ResNet-18',
        (False, (3, 4, 6, 3)): 'ResNet-34',
        (True, (3, 4, 6, 3)): 'ResNet-50',
        (True, (3, 4, 23, 3)): 'ResNet-101',
        (True, (3, 8, 36, 3)): 'ResNet-152',
    }
    name = known.get((bottleneck, blocks))
    if name is None:
        kind = 'bottleneck' if bottleneck else 'basic'
        name = f'network with {"-".join(map(str, blocks)) or "no"} {kind} blocks'
    stem = shapes.get('conv1.weight')
    details = []
    if stem is not None and stem[0] != 64:
        details.append(f'{stem[0]} channels')
    if stem is not None and stem[-1] == 3:
        details.append('3x3 stem')
    return f'{name} ({", ".join(details)})' if details else name


_TO_D2 = [
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
