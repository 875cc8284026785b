"""What a detection config imports (``custom_imports``): mmdet, if it can run here.

Without the compiled ops of mmcv, mmdet fails with a traceback about ``mmcv._ext``. Here it is one
sentence with the remedy.
"""

from importlib import import_module

import ttl_mm.registry  # noqa: F401 torchvision must be guarded first
from ttl_mm.errors import UserError


def require_detection() -> None:
    """Import mmdet, or say what is missing."""
    import torch  # noqa: F401 the ops link against it

    for name, what in (('mmcv._ext', "mmcv's compiled ops"), ('mmdet.models', 'mmdet')):
        try:
            import_module(name)
        except ImportError as error:
            raise UserError(
                f'detection needs {what}, which cannot be imported ({error}): run `make full`, '
                'or see what else is missing with `ttl doctor`.'
            ) from error


require_detection()
