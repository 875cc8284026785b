"""Make a file that can be handed to strangers: weights and plain facts, named by its hash."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from torch import Tensor

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.input_settings import read_input_settings
from ttl_mm.checkpoint.load import load_backbone_state, refuse_bad_tensors, resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.export.card import Facts, described, model_card, results_of
from ttl_mm.export.formats import write_openmmlab, write_safetensors
from ttl_mm.files.regular import is_regular
from ttl_mm.outputs import claim_file
from ttl_mm.version import __version__
from ttl_mm.zoo.cache import sha256_of
from ttl_mm.zoo.manifest import NAME, Entry

NETWORKS = ('backbone.', 'neck.', 'head.', 'target_backbone.', 'target_neck.')
_FACTS = ('epoch', 'iter')  # of the source's meta; its config is code and names paths, so it stays


def publish(
    source: str | Path,
    name: str,
    folder: str | Path,
    *,
    kind: str = 'backbone',
    half: bool = False,
    suffix: str = '.pth',
    about: str = '',
    license: str = 'Apache-2.0',
    config: str | None = None,
    figures: Sequence[str | Path] = (),
    overwrite: bool = False,
) -> tuple[Path, dict[str, Any]]:
    """Write ``NAME-<first 8 of sha256><suffix>``, its manifest entry (.json) and its card (.md).

    Optimizer, random state, logs and config text of the source are left behind.

    Args:
        source: A checkpoint in any layout (``kind='backbone'``) or of ours (``'networks'``).
        name: The name it gets in the zoo.
        folder: Where to write.
        kind: 'backbone', or 'networks' for everything that another pre-training can start from.
        half: Store float16: half the size, loaded into float32 as it is.
        suffix: '.pth' or '.safetensors'.
        about: One line on what was trained on what.
        license: The license of the file.
        config: Path of the config in the repository.
        figures: Files ``figures.json`` of `ttl eval` about the source.
        overwrite: Whether an entry of other content may be replaced.

    Returns:
        The file and its manifest entry.
    """
    if not NAME.fullmatch(name):
        raise UserError(f'name {name!r}: use lower-case letters, digits and any of _ . - only.')
    file = resolve(source)
    results = [result for path in figures for result in results_of(path, sha256_of(file))]
    content = read_checkpoint(file)
    state = _state(content, kind, half)
    refuse_bad_tensors(state, str(source))
    shapes = shapes_of(load_backbone_state(state))
    facts = content.get('meta') or {}
    meta = {
        'name': name,
        'kind': kind,
        'architecture': layouts.architecture(shapes),
        'license': license,
        'written_by': f'ttl_mm {__version__}',
        **{key: facts[key] for key in _FACTS if isinstance(facts.get(key), int)},
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f'.{name}.{uuid4().hex}{suffix}'
    try:
        write = write_safetensors if suffix == '.safetensors' else write_openmmlab
        write(state, meta, fresh)
        digest = sha256_of(fresh)
        path = folder / f'{name}-{digest[:8]}{suffix}'
        entry: dict[str, Any] = {
            'file': path.name,
            'size': fresh.stat().st_size,
            'sha256': digest,
            'urls': [path.name],
            'kind': kind,
            'license': license,
            'about': about,
            'backbone': layouts.backbone_config(shapes),
            'config': config,
            'results': results,
        }
        Entry(name=name, **entry)  # refuses what the zoo would refuse
        written, card = path.with_suffix('.json'), path.with_suffix('.md')
        for target in (path, written, card):
            # its name has the hash of the weights, so the same one again replaces nothing
            same = is_regular(path) and sha256_of(path) == digest
            claim_file(target, overwrite or same, source)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    written.write_text(json.dumps({name: entry}, indent=2) + '\n')
    card.write_text(model_card(_facts(name, entry, meta['architecture'], file, half)))
    return path, entry


def _facts(name: str, entry: dict[str, Any], architecture: str, source: Path, half: bool) -> Facts:
    trained = read_input_settings(source)
    about = entry['about'] + half * ' The figures are of the weights before rounding to float16.'
    path = entry['file']
    return Facts(
        name=name,
        license=entry['license'],
        library='ttl_mm',
        about=about.strip(),
        architecture=architecture,
        images=described(trained),
        file=path,
        size=entry['size'],
        sha256=entry['sha256'],
        results=entry['results'],
        code='from ttl_mm.checkpoint.load import load_backbone_state\n\n'
        f'state = load_backbone_state({path!r})',
    )


def _state(content: dict[str, Any], kind: str, half: bool) -> dict[str, Tensor]:
    if kind == 'backbone':
        state = {f'backbone.{n}': t for n, t in load_backbone_state(content).items()}
    elif kind == 'networks':
        everything = tensors_of(content)
        state = {n: t.contiguous() for n, t in everything.items() if n.startswith(NETWORKS)}
        absent = [part for part in NETWORKS if not any(n.startswith(part) for n in state)]
        if absent:
            raise UserError(f'the checkpoint has no {absent[0]}*: publish it with --kind backbone.')
    else:
        raise UserError(f'kind {kind!r} cannot be published: choose backbone or networks.')
    if half:
        state = {n: t.half() if t.is_floating_point() else t for n, t in state.items()}
    return state
