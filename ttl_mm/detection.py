"""What a detection config imports (``custom_imports``): mmdet, and the extra norm of res5.

Without the compiled ops of mmcv, mmdet fails with a traceback about ``mmcv._ext``, and mmpretrain
leaves ``ResLayerExtraNorm`` out in silence. Here it is one sentence with the remedy.
"""

from importlib import import_module

import ttl_mm.registry  # noqa: F401 torchvision must be guarded first
from ttl_mm.errors import UserError


def require_detection() -> None:
    """Register mmdet's parts and ``ResLayerExtraNorm``, or say what is missing."""
    import torch  # noqa: F401 the ops link against it

    for name, what in (('mmcv._ext', "mmcv's compiled ops"), ('mmdet.models', 'mmdet')):
        try:
            import_module(name)
        except ImportError as error:
            raise UserError(
                f'detection needs {what}, which cannot be imported ({error}): run `make full`, '
                'or see what else is missing with `ttl doctor`.'
            ) from error
    import_module('mmpretrain.models.utils.res_layer_extra_norm')


require_detection()
