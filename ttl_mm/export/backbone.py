"""A backbone in the layout of another tool, written only if that tool computes the same with it."""

import os
from pathlib import Path

import torch

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.errors import UserError
from ttl_mm.export.formats import FORMATS, Network, State, mmpretrain_network
from ttl_mm.version import __version__
from ttl_mm.zoo.cache import sha256_of
from ttl_mm.zoo.manifest import SCHEME

TOLERANCE = 1e-5  # of the largest output, or of 1 if that is larger


def export_backbone(
    source: str | Path, to: str, path: str | Path | None = None, prefix: str | None = None
) -> Path:
    """Write the backbone of a checkpoint in the layout of another tool.

    Args:
        source: A checkpoint in any layout that :func:`load_backbone_state` knows.
        to: One of :data:`FORMATS`.
        path: Where to write; by default next to the source, or here for one of the zoo.
        prefix: As for :func:`load_backbone_state`.

    Raises:
        UserError: the tool has no such network, is not installed, or computes something else with
            the exported tensors. Nothing is written then.
    """
    if to not in FORMATS:
        raise UserError(f'format {to!r} is not known: choose one of {", ".join(FORMATS)}.')
    state = load_backbone_state(source, prefix)
    shapes = shapes_of(state)
    config = layouts.backbone_config(shapes)
    if config is None:
        raise UserError(f'{source} holds a {layouts.architecture(shapes)}, which no format takes.')
    file = resolve(source)
    meta = {
        'architecture': layouts.architecture(shapes),
        'backbone': config,
        'source': {'file': file.name, 'sha256': sha256_of(file)},
        'written_by': f'ttl_mm {__version__}',
    }
    reference = mmpretrain_network(config, state, source)
    folder = Path() if str(source).startswith(SCHEME) else file.parent
    path = Path(path or folder / f'{file.stem}_{to}{FORMATS[to].suffix}')
    fresh = path.with_name(f'.{path.stem}.{os.getpid()}{FORMATS[to].suffix}')
    try:
        FORMATS[to].write(state, meta, fresh)
        check_tensors(state, load_backbone_state(fresh), to)
        check_same(reference, FORMATS[to].read(fresh, meta), to)
        os.replace(fresh, path)
    except OSError as error:
        raise UserError(f'{path} cannot be written: {error.strerror}.') from error
    finally:
        fresh.unlink(missing_ok=True)
    return path


def check_tensors(state: State, written: State, to: str) -> None:
    """Every tensor must come back from the file with the values it had."""
    common = state.keys() & written.keys()
    changed = {n for n in common if not state[n].double().equal(written[n].double())}
    changed |= state.keys() ^ written.keys()
    if changed:
        raise UserError(f'nothing was written: {to} gives back other values for {min(changed)}.')


@torch.no_grad()
def check_same(reference: Network, exported: Network, to: str) -> None:
    """On random images both must compute the same, within the tolerance."""
    images = torch.randn(2, 3, 96, 80, generator=torch.Generator().manual_seed(0))
    ours, theirs = reference(images), exported(images)
    if not torch.isfinite(ours).all():
        raise UserError('nothing was written: the network overflows on random images.')
    if ours.shape != theirs.shape:
        raise UserError(
            f'nothing was written: with the exported tensors {to} computes {tuple(theirs.shape)}, '
            f'mmpretrain {tuple(ours.shape)}.'
        )
    difference = (ours - theirs).abs().max().item()
    allowed = TOLERANCE * max(1.0, ours.abs().max().item())
    if not difference <= allowed:
        raise UserError(
            f'nothing was written: with the exported tensors {to} computes something else than '
            f'mmpretrain (difference {difference:.2e}, {allowed:.2e} allowed).'
        )
