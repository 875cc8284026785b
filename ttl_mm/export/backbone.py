"""A backbone in the layout of another tool, written only if that tool computes the same with it."""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import Architecture, read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.input_settings import read_input_settings
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.export.formats import FORMATS, Format, Network, State, mmpretrain_network
from ttl_mm.export.library_formats import adapted_network, check_size, library_formats
from ttl_mm.models.adapted_backbone import pool
from ttl_mm.outputs import claim_file
from ttl_mm.version import __version__
from ttl_mm.zoo.cache import sha256_of
from ttl_mm.zoo.manifest import SCHEME

TOLERANCE = 1e-5  # of the largest output, or of 1 if that is larger


def export_backbone(
    source: str | Path,
    to: str,
    path: str | Path | None = None,
    prefix: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the backbone of a checkpoint in the layout of another tool.

    Args:
        source: A checkpoint in any layout that :func:`load_backbone_state` knows.
        to: One of :data:`FORMATS`.
        path: Where to write; by default next to the source, or here for one of the zoo.
        prefix: As for :func:`load_backbone_state`.
        overwrite: Whether an existing file may be replaced; never the source.

    Raises:
        UserError: the file exists; or the tool has no such network, is not installed, or computes
            something else with the exported tensors. Nothing is written then.
    """
    if to not in FORMATS:
        raise UserError(f'format {to!r} is not known: choose one of {", ".join(FORMATS)}.')
    file = resolve(source)
    folder = Path() if str(source).startswith(SCHEME) else file.parent
    path = Path(path or folder / f'{file.stem}_{to}{FORMATS[to].suffix}')
    claim_file(path, overwrite, file)
    content = read_checkpoint(file)
    architecture = read_architecture(file, content)
    state = load_backbone_state(source, prefix, content=content)
    form, config, title = _choose(architecture, shapes_of(state), to, source)
    meta = {
        'architecture': title,
        'backbone': config,
        'source': {'file': file.name, 'sha256': sha256_of(file)},
        'written_by': f'ttl_mm {__version__}',
    }
    if (trained := read_input_settings(file, content)) is not None:
        meta['input'] = {key: value for key, value in trained._asdict().items() if value}
    if architecture is None:
        reference = mmpretrain_network(config, state, source)
    else:
        reference = adapted_network(architecture, source, prefix, content)
    fresh = path.with_name(f'.{path.stem}.{uuid4().hex}{form.suffix}')
    try:
        form.write(state, meta, fresh)
        if form.keeps_tensors:
            names = None if architecture is None else state
            check_tensors(state, load_backbone_state(fresh, expected=names), to)
        size = (96, 80) if architecture is None else check_size(architecture, fresh)
        channels = config.get('in_channels', 3)
        check_same(reference, form.read(fresh, meta), to, size, channels)
        os.replace(fresh, path)
    except OSError as error:
        raise UserError(f'{path} cannot be written: {error.strerror}.') from error
    finally:
        fresh.unlink(missing_ok=True)
    return path


def _choose(
    architecture: Architecture | None, shapes: dict, to: str, source: str | Path
) -> tuple[Format, dict[str, Any], str]:
    """How to write a network: the format, the config of the network there, and its name."""
    config, title = layouts.backbone_config(shapes), layouts.architecture(shapes)
    if architecture is not None:
        title, own = architecture.network, library_formats(architecture)
        if to in own:
            return own[to], architecture.config, title
        if config is None:
            raise UserError(f'{to} has no {title}: export it to {" or ".join(own)} instead.')
    if config is None:
        raise UserError(f'{source} holds a {title}, which no format takes.')
    return FORMATS[to], config, title


def check_tensors(state: State, written: State, to: str) -> None:
    """Every tensor must come back from the file with the values it had."""
    common = state.keys() & written.keys()
    changed = {n for n in common if not state[n].double().equal(written[n].double())}
    changed |= state.keys() ^ written.keys()
    if changed:
        raise UserError(f'nothing was written: {to} gives back other values for {min(changed)}.')


@torch.no_grad()
def check_same(
    reference: Network,
    exported: Network,
    to: str,
    size: tuple[int, int] = (96, 80),
    channels: int = 3,
) -> None:
    """On random images of this size both must compute the same, within the tolerance."""
    images = torch.randn(2, channels, *size, generator=torch.Generator().manual_seed(0))
    ours, theirs = reference(images), exported(images)
    ours_by = 'mmpretrain'
    if ours.ndim == 2:  # features of a network of a library
        ours_by, theirs = 'the network itself', pool(theirs)
    if not torch.isfinite(ours).all():
        raise UserError('nothing was written: the network overflows on random images.')
    if ours.shape != theirs.shape:
        raise UserError(
            f'nothing was written: with the exported tensors {to} computes {tuple(theirs.shape)}, '
            f'{ours_by} {tuple(ours.shape)}.'
        )
    difference = (ours - theirs).abs().max().item()
    allowed = TOLERANCE * max(1.0, ours.abs().max().item())
    if not difference <= allowed:
        raise UserError(
            f'nothing was written: with the exported tensors {to} computes something else than '
            f'{ours_by} (difference {difference:.2e}, {allowed:.2e} allowed).'
        )
