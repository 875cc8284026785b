"""Typing errors inside a config, found before anything is built.

Every dict with a ``type`` is compared with the signature of the class that the name stands for;
what the class does not take is an error that names the nearest argument.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import mmengine.registry
from mmengine.config import Config
from mmengine.model import BaseModule
from mmengine.registry import Registry, init_default_scope
from torch import nn
from torch.utils.data import DataLoader

from ttl_mm.errors import UserError, did_you_mean

LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')
# taken out of a dict before its class is built: by registries and Runner, hooks, optimizer
# wrappers, schedules, initializers, norm layers
_TAKEN_OUT = {
    'type', '_scope_', 'priority', 'constructor', 'paramwise_cfg', 'optimizer', 'by_epoch',
    'convert_to_iter_based', 'override', 'layer', 'requires_grad', '_delete_',
}  # fmt: skip
_PLAIN = (BaseModule, nn.Module, object)  # they take none but init_cfg
_ONLY_MMENGINE = ('function', 'inferencer', 'strategy')  # registries that other packages lack
_OF_LOADERS = {'dataset', 'sampler', 'num_batch_per_epoch', 'type', '_scope_'}
_COUNTS = {'batch_size': 1, 'num_workers': 0, 'max_epochs': 1, 'max_iters': 1, 'val_interval': 1}


def check_arguments(cfg: Config) -> None:
    """Refuse arguments that nothing takes, and numbers that are none.

    Raises:
        UserError: Names the place in the config, the value, and the nearest argument.
    """
    init_default_scope(cfg.get('default_scope') or 'mmengine')
    content = {key: value for key, value in cfg.to_dict().items() if key != 'runner_type'}
    for key in LOADERS:
        if isinstance(content.get(key), Mapping):
            known = {*inspect.signature(DataLoader).parameters, *_OF_LOADERS}
            _refuse_unknown(content[key], known, key, 'a data loader')
            _check_counts(content[key], key)
    if isinstance(content.get('train_cfg'), Mapping):
        _check_counts(content['train_cfg'], 'train_cfg')
    for place, part in _typed(content, ''):
        found = list(_classes(part['type'], part.get('_scope_')))
        if not found:
            _refuse_missing_scope(part['type'], place)
        taken = [_arguments(one) for one in found]
        if found and all(names is not None for names in taken):
            every = {*_TAKEN_OUT, *(name for names in taken if names for name in names)}
            _refuse_unknown(part, every, place, str(part['type']))
        for one in found[:1]:
            _check_numbers(one, part, place)


def _typed(value: Any, place: str) -> Iterator[tuple[str, Mapping]]:
    """Every dict with a type, and the way to it."""
    if isinstance(value, Mapping):
        if isinstance(value.get('type'), (str, type)):
            yield place, value
        for name, part in value.items():
            yield from _typed(part, f'{place}.{name}' if place else str(name))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from _typed(part, f'{place}.{i}')


def _classes(kind: Any, scope: str | None) -> Iterator[Any]:
    """What the name may stand for; a name is registered in few of the registries."""
    if not isinstance(kind, str):
        yield kind
        return
    for root in _roots():
        with root.switch_scope_and_registry(scope) as registry:
            found = _find(registry, root, kind)
        if found is not None:
            yield found


def _roots() -> Iterator[Registry]:
    for root in vars(mmengine.registry).values():
        if isinstance(root, Registry) and root.name not in _ONLY_MMENGINE:
            yield root


def _refuse_missing_scope(kind: str, place: str) -> None:
    """Refuse a name that nothing stands for, where it is one of ttl_mm."""
    for root in _roots():
        ours = root.children.get('ttl_mm')
        if ours is None:
            continue
        ours.import_from_location()
        if kind in ours.module_dict:
            full = f'ttl_mm.{kind}'
            raise UserError(
                f'{place}.type={kind!r}: this class is registered as {full!r}: write that.'
            )


def _find(registry: Registry, root: Registry, name: str) -> Any:
    """``registry.get(name)``, which where it finds nothing tries to import a module of that name.

    Most names are in one registry of twenty, so the tries would take most of the time.
    """
    scope, _, inner = name.rpartition('.')
    if scope:
        if scope not in root.children:
            return registry.get(name)  # a package that is not imported yet, or the path of a class
        registry = root.children[scope]
    registry.import_from_location()
    parents: Registry | None = registry
    while parents is not None:
        if inner in parents.module_dict:
            return parents.module_dict[inner]
        parents = parents.parent
    return None


def _arguments(built: Any) -> set[str] | None:
    """The names that a class or function takes; None if it may take any.

    What a class takes by ``**kwargs`` is for its base. If that is plain, it is for something else.
    """
    if inspect.isclass(built) and issubclass(built, nn.Module) and built.__module__[:5] == 'torch':
        return None  # helpers of mmcv take some out before they build one of these
    names: set[str] = set()
    owners = inspect.getmro(built) if inspect.isclass(built) else ()
    makers = [vars(c)['__init__'] for c in owners if '__init__' in vars(c) and c not in _PLAIN]
    for maker in makers if owners else [built]:
        try:
            parameters = inspect.signature(maker).parameters.values()
        except (TypeError, ValueError):
            return None
        names |= {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        # our classes call `old` what they take only to refuse it
        if not any(p.kind is p.VAR_KEYWORD and p.name != 'old' for p in parameters):
            return names
    return None


def _refuse_unknown(part: Mapping, known: set[str], place: str, owner: str) -> None:
    for name in part:
        if name not in known:
            near = did_you_mean(str(name), known - _TAKEN_OUT) or ' Delete it.'
            where = f'{place}.{name}' if place else name
            raise UserError(f'{where}={part[name]!r}: {owner} takes no {name!r}.{near}')


def _check_counts(part: Mapping, place: str) -> None:
    for name, least in _COUNTS.items():
        value = part.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            what = f'a whole number of at least {least} is needed'
            raise UserError(f'{place}.{name}={value!r}: {what}.')


def _check_numbers(built: Any, part: Mapping, place: str) -> None:
    """Refuse text and lists where our own classes and torch's optimizers say number."""
    module = getattr(built, '__module__', '') or ''
    if not module.startswith(('ttl_mm.', 'torch.optim')):
        return
    try:
        parameters = inspect.signature(built).parameters
    except (TypeError, ValueError):
        return
    for name, value in part.items():
        if name in parameters and isinstance(value, (str, list, tuple, Mapping)):
            said = inspect.formatannotation(parameters[name].annotation)
            if re.fullmatch(r'(int|float|None|[ |])+', said):
                raise UserError(f'{place}.{name}={value!r}: a number is needed.')
