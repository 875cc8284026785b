"""Read a config and catch the typing errors that mmengine lets pass."""

import ast
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.runner import Runner

from ttl_mm.compat.mmengine_private import leave_unformatted
from ttl_mm.errors import UserError, did_you_mean
from ttl_mm.files.regular import is_regular, read_text
from ttl_mm.files.stores.url import clean_url, is_url

# top-level names that mmengine, mmpretrain and mmdet read, beside the arguments of Runner
_OTHER_KEYS = {
    'checkpoint_activations', 'compile', 'custom_imports', 'data_preprocessor',
    'efficient_conv_bn_eval', 'env_cfg', 'find_unused_parameters', 'model_wrapper_cfg',
    'runner_type', 'strategy', 'sync_bn', 'tta_model', 'tta_pipeline', 'work_dir',
}  # fmt: skip
KNOWN_KEYS = {*signature(Runner.__init__).parameters, *_OTHER_KEYS} - {'self', 'cfg'}


def read_config(path: str | Path, options: Mapping[str, Any] | None = None) -> Config:
    """Read a Python config and merge ``--cfg-options`` into it.

    Names that only helped to write it (``data_type`` in ``type=data_type``, of its bases too) are
    left out, so that the copy which a run writes into its work dir reads as well as the original.

    Raises:
        UserError: The file is missing or no Python file, or a key is misspelled. The message names
            the nearest key there is.
    """
    path = Path(path)
    if not is_regular(path):
        raise UserError(f'{path} is not a file: check the path of the config.')
    if path.suffix != '.py':
        raise UserError(
            f'{path} is refused: a config is a Python file, which you read before you run it; '
            'YAML and JSON can hide code where nobody expects it.'
        )
    check_bases(path)
    try:
        config = Config.fromfile(path)
    except UserError:  # of one of its custom_imports
        raise
    except Exception as error:  # a config is code, and may fail in any way
        kind = '' if isinstance(error, SyntaxError) else f'{type(error).__name__}: '
        raise UserError(f'{path} cannot be read: {kind}{error}') from error
    leave_unformatted(config)
    check_own_keys(path)
    helpers = [key for key in config if key not in KNOWN_KEYS]
    merge_options(config, options or {})
    for key in helpers:
        config.pop(key)
    check_no_pickles(config.to_dict())
    check_addresses(config.to_dict())
    return config


def check_addresses(value: Any) -> None:
    """Refuse keys in the addresses of images: a run writes its config into logs and checkpoints."""
    if isinstance(value, Mapping):
        root = value.get('data_root')
        if isinstance(root, str) and is_url(root):
            clean_url(root)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            check_addresses(item)


def check_bases(path: Path, seen: frozenset[Path] = frozenset()) -> None:
    """Refuse a base that is no Python file, at any depth: nobody expects code in YAML or JSON."""
    for line in _parse(path).body:
        names = [t.id for t in getattr(line, 'targets', ()) if isinstance(t, ast.Name)]
        if not isinstance(line, ast.Assign) or '_base_' not in names:
            continue
        bases = [n.value for n in ast.walk(line.value) if isinstance(n, ast.Constant)]
        for base in (base for base in bases if isinstance(base, str)):
            if not base.endswith('.py'):
                raise UserError(f'{path} has _base_ {base!r}, which is refused: a base is Python.')
            inner = path.parent / base
            if '::' not in base and is_regular(inner) and len(seen) < 100 and inner not in seen:
                check_bases(inner, seen | {inner})


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(read_text(path), filename=str(path))
    except OSError as error:
        raise UserError(f'{path} cannot be read: {error.strerror}.') from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f'{path} cannot be read: {error}') from error


def check_own_keys(path: Path) -> None:
    """Refuse a name at the top level of the file that nothing reads.

    A name is read if mmengine knows it, or if the file itself uses it (as in ``type=data_type``).
    """
    tree = _parse(path)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = KNOWN_KEYS | {node.id for node in names if isinstance(node.ctx, ast.Load)}
    targets = [t for line in tree.body if isinstance(line, ast.Assign) for t in line.targets]
    for node in (node for target in targets for node in ast.walk(target)):
        if isinstance(node, ast.Name) and node.id not in read and not node.id.startswith('_'):
            near = did_you_mean(node.id, KNOWN_KEYS) or ' Delete it.'
            raise UserError(f'{path}:{node.lineno}: nothing reads {node.id!r}.{near}')


def merge_options(config: Config, options: Mapping[str, Any]) -> None:
    """Merge ``key.inner=value`` pairs; a key that is not there must be written ``+key``."""
    content = config.to_dict()
    known = {key: value for key, value in content.items() if key in KNOWN_KEYS}
    for key in options:
        if key.startswith('+'):
            continue
        first = key.partition('.')[0]
        if first in content and first not in known:
            raise UserError(
                f'--cfg-options {key} would change nothing: {first!r} was used while the config '
                'was read. Set the key it went into.'
            )
        _check_path(known, key)
    config.merge_from_dict({key.removeprefix('+'): value for key, value in options.items()})


def _check_path(config: Mapping, key: str) -> None:
    here: Any = config
    parts = key.split('.')
    for depth, part in enumerate(parts):
        where = '.'.join(parts[:depth]) or 'the config'
        if isinstance(here, (list, tuple)):
            if not part.isdigit() or int(part) >= len(here):
                raise UserError(
                    f'--cfg-options {key}: {where} is a list of {len(here)}, {part!r} is no place '
                    'in it.'
                )
            here = here[int(part)]
        elif isinstance(here, Mapping):
            if part not in here:
                raise UserError(
                    f'--cfg-options {key}: {where} has no {part!r}.{did_you_mean(part, here)} '
                    f'Write +{key} to add a new key.'
                )
            here = here[part]
        else:
            raise UserError(f'--cfg-options {key}: {where} is {here!r}, which has no keys.')


def check_no_pickles(value: Any, key: str = '') -> None:
    """Refuse pickled annotation files: opening one runs whatever it holds."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            check_no_pickles(item, f'{key}.{name}' if key else str(name))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            check_no_pickles(item, f'{key}.{i}')
    elif isinstance(value, str) and value.lower().endswith(('.pkl', '.pickle')):
        raise UserError(f'{key}={value!r} is refused: a pickle can run code. Use JSON or text.')
