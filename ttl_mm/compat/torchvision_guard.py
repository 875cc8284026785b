"""Let torchvision import where its compiled ops cannot load.

mmpretrain needs torchvision's transforms, never its ops. Beside a CPU build of torch, a CUDA
build of torchvision cannot load its ops, and then ``import torchvision`` itself fails with
"operator torchvision::nms does not exist", because it attaches fake kernels to ops that nobody
declared. Declaring the schemas is enough to let the import through; calling such an op
still raises. Where the ops load, this module does nothing.

``TTL_TORCHVISION_GUARD=0`` switches it off.
"""

import os
from importlib.util import find_spec
from pathlib import Path

_NMS = '(Tensor dets, Tensor scores, float iou_threshold) -> Tensor'
_declared: list = []  # a torch.library.Library declares its ops only while it is alive


def ops_library() -> Path | None:
    """The compiled library of the installed torchvision; None if there is none."""
    spec = find_spec('torchvision')  # finds the package without importing it
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    found = [p for p in folder.glob('_C*') if p.suffix in ('.so', '.pyd', '.dylib')]
    return found[0] if found else None


def ops_load() -> bool:
    """Whether torchvision's compiled ops load beside the installed torch."""
    import torch

    library = ops_library()
    if library is None:
        return False
    try:
        torch.ops.load_library(str(library))
    except OSError:
        return False
    return True


def guard_torchvision() -> None:
    """Make ``import torchvision`` work; call before importing mmpretrain or mmdet."""
    if _declared or os.environ.get('TTL_TORCHVISION_GUARD') == '0':
        return
    if find_spec('torchvision') is None or ops_load():
        return
    import torch

    library = torch.library.Library('torchvision', 'FRAGMENT')
    for name in ('nms', 'qnms'):
        library.define(name + _NMS)
    _declared.append(library)
