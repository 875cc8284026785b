"""Check that mmdet and the compiled ops of mmcv, which detection needs, can be imported."""

from importlib import import_module

from ttl_mm.errors import UserError


def require_detection() -> None:
    """Import mmdet, or raise a :class:`UserError` that says what is missing and what to do."""
    import torch  # noqa: F401 the ops link against it

    for name, what in (('mmcv._ext', "mmcv's compiled ops"), ('mmdet.models', 'mmdet')):
        try:
            import_module(name)
        except ImportError as error:
            raise UserError(
                f'detection needs {what}, which cannot be imported ({error}): run `make full`, '
                'or see what else is missing with `ttl doctor`.'
            ) from error
