"""Let mmengine find our recipes by name: ``get_config('ttl_mm::ttl_r50_8xb104_200e.py')``.

mmengine has a fixed list of packages whose configs ``package::folder/name.py`` stands for, in
``mmengine.hub`` and in ``_base_``, and wants a folder in the name, which our main recipe has not.

For every base in another package it also reads the hundred YAML files of that package's index,
where it looks for the name without its ``.py``, never finds it, and takes the file of that name
after all: two seconds for each base of a detector. Here the file comes first.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from os.path import isfile, join

PREFIX = 'ttl_mm::'
_SPLIT = '_get_package_and_cfg_path'
_USERS = ('mmengine.config.utils', 'mmengine.config.config', 'mmengine.hub.hub')
_FIND = '_get_external_cfg_path'


def use_recipe_names() -> None:
    """Split our names and find files here; a second call changes nothing.

    Ours are not put on mmengine's list: it takes the packages there for parts of OpenMMLab, looks
    for their ``utils`` and warns in every run that ours are not installed.
    """
    for module in map(import_module, _USERS):
        split = getattr(module, _SPLIT)
        if not hasattr(split, '__wrapped__'):
            setattr(module, _SPLIT, _with_ours(split))
    reader = import_module('mmengine.config.config')
    if not hasattr(find := getattr(reader, _FIND), '__wrapped__'):
        setattr(reader, _FIND, _file_first(find))


def _with_ours(split: Callable[[str], tuple[str, str]]) -> Callable[[str], tuple[str, str]]:
    """``package::name`` to both parts; names of other packages as before."""

    @wraps(split)
    def split_name(name: str) -> tuple[str, str]:
        return ('ttl_mm', name.removeprefix(PREFIX)) if name.startswith(PREFIX) else split(name)

    return split_name


def _file_first(find: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """The config of a package by its place, or else as mmengine looks for it."""

    @wraps(find)
    def find_config(package_path: str, name: str) -> str:
        path = join(package_path, '.mim', 'configs', name)
        return path if isfile(path) else find(package_path, name)

    return find_config
