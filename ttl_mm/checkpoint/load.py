"""Find the backbone in a checkpoint of any known layout."""

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import declared_architecture, read_architecture
from ttl_mm.checkpoint.coverage import some
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.zoo.cache import fetch
from ttl_mm.zoo.manifest import SCHEME, Entry, find_entry
from ttl_mm.zoo.progress import progress_bar

_CONTAINERS = ('state_dict', 'model', 'model_state_dict')


def load_backbone_state(
    source: str | Path | Mapping[str, Any],
    prefix: str | None = None,
    expected: Iterable[str] | None = None,
    content: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """The backbone's tensors on the CPU, under the names of mmpretrain's ResNet or of its library.

    Args:
        source: A checkpoint file (``.pth``, ``.safetensors``, ``.onnx``, detectron2's ``.pkl``),
            ``ttl_mm://name`` for one of the zoo, or the content of one. Layouts known:
            :data:`~ttl_mm.checkpoint.layouts.PREFIXES`, each also inside ``module.``, detectron2's.
        prefix: Take the tensors below this prefix instead of looking for it, for instance
            ``'target_backbone.'``.
        expected: The names of the tensors of a network of a library: only these are kept.
        content: What is in the file, if it was read already.

    Raises:
        UserError: the file is refused, or no backbone is found in it.
    """
    if isinstance(source, Mapping):
        where, content, declared = 'the checkpoint', source, declared_architecture(source)
    else:
        path = resolve(source)
        where, content = str(source), read_checkpoint(path) if content is None else content
        declared = read_architecture(path) if path.suffix == '.safetensors' else None
        declared = declared or declared_architecture(content)
    state = tensors_of(content)
    if expected is not None or declared is not None:
        return _library_state(state, where, prefix, expected)
    if prefix is None:
        state = _house_names(state)
        prefix = _find_prefix(state, where)
    kept = tensors_below(prefix, state)
    if not kept:
        raise UserError(f'{where} has no tensor below {prefix!r}; it has {some(state, 5)}.')
    if '' in layouts.backbone_prefixes(kept):  # a ResNet, maybe with a head inside it
        kept = {n: t for n, t in kept.items() if layouts.BACKBONE.match(n)}
    refuse_bad_tensors(kept, where)
    return {name: tensor.detach().contiguous() for name, tensor in kept.items()}


def _library_state(
    state: Mapping[str, Tensor], where: str, prefix: str | None, expected: Iterable[str] | None
) -> dict[str, Tensor]:
    """The tensors of a network of a library, below the prefix with most of the expected names."""
    names = None if expected is None else set(expected)
    if prefix is None and names is None:
        prefix = 'backbone.' if any(name.startswith('backbone.') for name in state) else ''
    elif prefix is None:
        found = {p: sum(p + name in state for name in names or ()) for p in ('', *layouts.PREFIXES)}
        prefix = max(found, key=lambda p: found[p])
    kept = tensors_below(prefix, state)
    if not kept:
        raise UserError(f'{where} has no tensor below {prefix!r}; it has {some(state, 5)}.')
    kept = {name: t for name, t in kept.items() if names is None or name in names}
    refuse_bad_tensors(kept, where)
    return {name: tensor.detach().contiguous() for name, tensor in kept.items()}


def resolve(source: str | Path) -> Path:
    """The path of a checkpoint; ``ttl_mm://name`` is fetched and checked first."""
    if not str(source).startswith(SCHEME):
        return Path(source)
    return fetch_checkpoint(find_entry(str(source).removeprefix(SCHEME)))


def fetch_checkpoint(entry: Entry, cache: Path | None = None, **options: Any) -> Path:
    """The checked file of a zoo entry, with progress on stderr; ``options``: see :func:`fetch`."""
    with progress_bar(entry.name) as report:
        say = partial(print, file=sys.stderr)
        return fetch(entry, cache, check=unreadable, report=report, say=say, **options)


def unreadable(path: Path) -> str | None:
    """Why no backbone can be read from a file; None if one can."""
    try:
        load_backbone_state(path)
    except UserError as error:
        return str(error)
    return None


def tensors_of(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The flat dict of tensors inside a checkpoint, without DataParallel's ``module.``."""
    for _ in _CONTAINERS:  # each at most once: a hostile file can hold itself
        inner = (content.get(key) for key in _CONTAINERS)
        content = next((found for found in inner if isinstance(found, Mapping)), content)
    state = {n: t for n, t in content.items() if isinstance(n, str) and isinstance(t, Tensor)}
    wrapper = layouts.unwrap(state)
    return {name.removeprefix(wrapper): tensor for name, tensor in state.items()}


def tensors_below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with ``prefix``, without it."""
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}


def _house_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename detectron2's tensors; any other state stays as it is."""
    inner = {name.removeprefix('backbone.bottom_up.'): t for name, t in state.items()}
    if 'stem.conv1.norm.weight' not in inner:
        return state
    renamed = {layouts.from_detectron2(name): t for name, t in inner.items()}
    return {name: tensor for name, tensor in renamed.items() if name is not None}


def _find_prefix(state: Mapping[str, Tensor], where: str) -> str:
    found = layouts.backbone_prefixes(state)
    for prefix in layouts.PREFIXES:
        if prefix in found:
            return prefix
    if found:
        raise UserError(
            f'{where} has a ResNet only below {", ".join(map(repr, found))}, which is no known '
            'place of an online backbone: name the prefix yourself if it is the one you want.'
        )
    raise UserError(f'{where} holds no ResNet backbone: its tensors are {some(state, 5)}.')


def refuse_bad_tensors(state: Mapping[str, Tensor], where: str, allow_empty: bool = False) -> None:
    """Refuse tensors that claim more than is stored, and values no trained network can have."""
    for name, tensor in state.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            raise UserError(f'{where} is refused: {name} is no plain tensor.')
        if tensor.numel() == 0 and not allow_empty:
            raise UserError(f'{where} is refused: {name} has no values, {tuple(tensor.shape)}.')
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise UserError(
                f'{where} is refused: {name} claims {tuple(tensor.shape)} values and stores fewer.'
            )
        if not is_finite(tensor):
            raise UserError(f'{where} has values that are not finite in {name}: use another file.')
        if name.endswith('running_var') and (tensor < 0).any():
            raise UserError(f'{where} has a negative variance in {name}: use another file.')


def is_finite(tensor: Tensor) -> bool:
    """Whether all values are finite, of numbers of any kind."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    if tensor.element_size() == 1:  # float8 has no operations of its own
        tensor = tensor.float()
    return bool(torch.isfinite(tensor).all())
