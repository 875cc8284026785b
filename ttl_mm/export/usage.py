"""How to load an exported file."""

import shlex
from pathlib import Path

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.compat.torchvision_guard import ops_load
from ttl_mm.export.formats import FORMATS
from ttl_mm.export.library_formats import library_formats, library_hint


def usage_hint(path: str | Path, to: str, source: str | Path | None = None) -> str:
    """Code that loads an exported file, or options for detectron2; one line, three if 'plain'.

    ``source`` is the checkpoint that it was made from, if the layout has no place for its name.
    """
    architecture = read_architecture(resolve(source or path))
    if architecture is not None and to in library_formats(architecture):
        return library_hint(path, to, architecture)
    config = layouts.backbone_config(shapes_of(load_backbone_state(path))) or {}
    depth, kind = config.get('depth'), config.get('type', '').rpartition('.')[2]
    module, network = 'torchvision.models', f'resnet{depth}()'
    if config.keys() != {'type', 'depth'} or kind != 'ResNet':  # which torchvision does not have
        options = ', '.join(f'{k}={v!r}' for k, v in config.items() if k != 'type')
        module, network = 'mmpretrain.models', f'{kind}({options})'
    return FORMATS[to].use.format(
        path=str(path),
        shell_path=shlex.quote(str(path)),
        depth=depth,
        module=module,
        network=network,
    )


def import_remark(hint: str) -> str:
    """Comment on a hint that fails in plain Python: torchvision is of another build than torch."""
    if not ('torchvision' in hint or 'timm' in hint) or ops_load():
        return ''
    return (
        '# `import torchvision` fails here, since it was built for another torch:\n'
        '# `ttl doctor` says how to repair it. Until then `import ttl_mm.registry` first.'
    )
