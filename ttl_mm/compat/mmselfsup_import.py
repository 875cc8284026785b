"""Import mmcls and mmselfsup, which refuse today's mmcv and would register a name twice."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mmengine.registry import Registry

from ttl_mm.compat.mmengine_private import mark_as_imported
from ttl_mm.errors import UserError

PACKAGES = ('mmcls', 'mmselfsup')
PARTS = (
    'mmcls.models', 'mmcls.datasets', 'mmselfsup.models', 'mmselfsup.datasets',
    'mmselfsup.engine', 'mmselfsup.evaluation', 'mmselfsup.visualization',
)  # fmt: skip
ACCEPTED_MMCV = '2.0.1'  # inside the range of both
CLASH = 'ResLayerExtraNorm'  # which mmpretrain and mmselfsup both register with mmdet


def import_mmselfsup() -> None:
    """Import all of mmselfsup; nothing that was there before is changed by it.

    Raises:
        UserError: It is not installed.
    """
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise UserError(
            f'{" and ".join(missing)} missing, which this config asks for: '
            '`pip install --no-deps mmselfsup==1.0.0 mmcls==1.0.0rc6`, then '
            '`pip install attrs future scikit-learn tensorboard`; `make full` has them all.'
        )
    mmcv: Any = import_module('mmcv')
    import_module('mmpretrain.models')  # first, so that its ResLayerExtraNorm is the one that stays
    mmdet = sys.modules.get('mmdet.registry')  # imported by mmpretrain.models if it can be
    models = mmdet.MODELS.module_dict if mmdet else {}
    version, stays = mmcv.__version__, models.pop(CLASH, None)
    mmcv.__version__ = ACCEPTED_MMCV
    try:
        for part in PARTS:
            import_module(part)
    finally:
        mmcv.__version__ = version
        models.pop(CLASH, None)
        if stays is not None:
            models[CLASH] = stays
    for registry in vars(import_module('mmselfsup.registry')).values():
        if isinstance(registry, Registry) and registry.scope == 'mmselfsup':
            mark_as_imported(registry)  # one location, mmselfsup.engine.runner, was never shipped
