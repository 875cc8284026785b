"""Check that mmdet and the compiled ops of mmcv, which detection needs, can be imported."""

from ttl_mm.compat.quiet_imports import import_quietly
from ttl_mm.errors import UserError


def require_detection() -> None:
    """Import mmdet, or raise a :class:`UserError` that says what is missing and what to do."""
    import torch  # noqa: F401 the ops link against it

    parts = {
        'mmcv._ext': "mmcv's compiled ops",
        'mmdet.models': 'mmdet',
        'mmdet.datasets': 'mmdet',
    }
    for name, what in parts.items():
        try:
            import_quietly(name)
        except ImportError as error:
            raise UserError(
                f'detection needs {what}, which cannot be imported ({error}): run `make full`, '
                'or see what else is missing with `ttl doctor`.'
            ) from error
