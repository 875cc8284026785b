"""Let mmengine find our recipes by name: ``get_config('ttl_mm::ttl_r50_8xb104_200e.py')``.

mmengine has a fixed list of packages whose configs ``package::folder/name.py`` stands for, in
``mmengine.hub`` and in ``_base_``, and wants a folder in the name, which our main recipe has not.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module

PREFIX = 'ttl_mm::'
_SPLIT = '_get_package_and_cfg_path'
_USERS = ('mmengine.config.utils', 'mmengine.config.config', 'mmengine.hub.hub')


def use_recipe_names() -> None:
    """Split our names here; a second call changes nothing.

    Ours are not put on mmengine's list: it takes the packages there for parts of OpenMMLab, looks
    for their ``utils`` and warns in every run that ours are not installed.
    """
    for module in map(import_module, _USERS):
        split = getattr(module, _SPLIT)
        if not hasattr(split, '__wrapped__'):
            setattr(module, _SPLIT, _with_ours(split))


def _with_ours(split: Callable[[str], tuple[str, str]]) -> Callable[[str], tuple[str, str]]:
    """``package::name`` to both parts; names of other packages as before."""

    @wraps(split)
    def split_name(name: str) -> tuple[str, str]:
        return ('ttl_mm', name.removeprefix(PREFIX)) if name.startswith(PREFIX) else split(name)

    return split_name
