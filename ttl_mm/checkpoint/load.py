"""Find the backbone in a checkpoint of any known layout."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.coverage import some
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.zoo.cache import fetch
from ttl_mm.zoo.manifest import SCHEME, Entry, find_entry
from ttl_mm.zoo.progress import progress_bar

_CONTAINERS = ('state_dict', 'model', 'model_state_dict')


def load_backbone_state(
    source: str | Path | Mapping[str, Any], prefix: str | None = None
) -> dict[str, Tensor]:
    """The backbone's tensors under the names of mmpretrain's ResNet, on the CPU.

    Args:
        source: A checkpoint file (``.pth``, ``.safetensors``, ``.onnx``, detectron2's ``.pkl``),
            ``ttl_mm://name`` for one of the zoo, or the content of one. Layouts known:
            :data:`~ttl_mm.checkpoint.layouts.PREFIXES`, each also inside ``module.``, detectron2's.
        prefix: Take the tensors below this prefix instead of looking for it, for instance
            ``'target_backbone.'``.

    Raises:
        UserError: the file is refused, or no backbone is found in it.
    """
    if isinstance(source, Mapping):
        where, state = 'the checkpoint', tensors_of(source)
    else:
        where, state = str(source), tensors_of(read_checkpoint(resolve(source)))
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
    for key in _CONTAINERS:
        if isinstance(content.get(key), Mapping):
            return tensors_of(content[key])
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


def refuse_bad_tensors(state: Mapping[str, Tensor], where: str) -> None:
    """Refuse views that claim more than is stored, and values that are not finite."""
    for name, tensor in state.items():
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise UserError(f'{where} is refused: {name} is no plain tensor.')
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise UserError(
                f'{where} is refused: {name} claims {tuple(tensor.shape)} values and stores fewer.'
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise UserError(f'{where} has values that are not finite in {name}: use another file.')
