"""A folder that Hugging Face's hub takes: config.json, model.safetensors and a model card."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttl_mm.checkpoint import layouts
from ttl_mm.checkpoint.architecture import Architecture, read_architecture
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.input_settings import InputSettings, read_input_settings
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.errors import UserError
from ttl_mm.export.backbone import export_backbone
from ttl_mm.export.card import Facts, described, model_card, results_of
from ttl_mm.export.formats import need
from ttl_mm.models.libraries import timm_options
from ttl_mm.outputs import claimed_folder
from ttl_mm.version import __version__
from ttl_mm.zoo.cache import sha256_of
from ttl_mm.zoo.manifest import SCHEME, find_entry

WEIGHTS, CONFIG, CARD = 'model.safetensors', 'config.json', 'README.md'
IMAGENET = InputSettings(224, (123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
COMMAND = 'ttl export'


def export_to_hub(
    source: str | Path,
    folder: str | Path | None = None,
    *,
    prefix: str | None = None,
    figures: Sequence[str | Path] = (),
    overwrite: bool = False,
) -> Path:
    """Write a folder for the hub, in timm's layout if timm has the network.

    ``timm.create_model('local-dir:FOLDER', pretrained=True)`` loads it, and after an upload
    ``hf-hub:USER/NAME``. Networks that timm lacks are written under mmpretrain's names.

    Args:
        source: A checkpoint in any layout, or ``ttl_mm://NAME``.
        folder: Where to write; by default next to the source, named after it.
        prefix: As for :func:`~ttl_mm.export.export_backbone`.
        figures: Files ``figures.json`` of `ttl eval` about this source, for the card.
        overwrite: Whether files that another program wrote may be replaced.
    """
    file = resolve(source)
    from_zoo = str(source).startswith(SCHEME)
    entry = find_entry(str(source).removeprefix(SCHEME)) if from_zoo else None
    results = [r for path in figures for r in results_of(path, sha256_of(file))]
    parent, name = (Path(), entry.name) if entry else (file.parent, file.stem)
    folder = Path(folder or parent / f'{name}_huggingface')
    with claimed_folder(folder, COMMAND, overwrite), tempfile.TemporaryDirectory() as scratch:
        facts = _write(source, file, folder, Path(scratch), prefix)
        card = Facts(
            name=name,
            license=entry.license if entry else 'apache-2.0',
            about=entry.about if entry else '',
            file=WEIGHTS,
            size=(folder / WEIGHTS).stat().st_size,
            sha256=sha256_of(folder / WEIGHTS),
            results=[*(entry.results if entry else ()), *results],
            **facts,
        )
        (folder / CARD).write_text(model_card(card))
    return folder


def _write(
    source: str | Path, file: Path, folder: Path, scratch: Path, prefix: str | None
) -> dict[str, Any]:
    """Write weights and config; what the card says of them."""
    architecture = read_architecture(file)
    state = load_backbone_state(source, prefix)
    plain = layouts.backbone_config(shapes_of(state))
    title = architecture.network if architecture else layouts.architecture(shapes_of(state))
    trained = read_input_settings(file)
    if trained is not None and trained.bands:
        raise UserError(f'{source} is for images beyond 8-bit RGB, which timm does not read.')
    images = trained or IMAGENET
    facts = {'architecture': title, 'images': described(trained)}
    if name := _name_in_timm(architecture, plain):
        path = export_backbone(source, 'timm', scratch / 'timm.pth', prefix)
        _write_for_timm(name, path, images, folder)
        code = (
            'import timm\n\n'
            f"model = timm.create_model('local-dir:{folder.name}', pretrained=True)  # or hf-hub:"
            'USER/NAME'
        )
        return {**facts, 'library': 'timm', 'code': code}
    path = export_backbone(source, 'safetensors', scratch / WEIGHTS, prefix)
    shutil.move(path, folder / WEIGHTS)
    config = {'library_name': 'ttl_mm', 'written_by': f'ttl_mm {__version__}', 'backbone': plain,
              'input': images._asdict()}  # fmt: skip
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + '\n')
    code = (
        'from ttl_mm.checkpoint.load import load_backbone_state\n\n'
        f"state = load_backbone_state('{folder.name}/{WEIGHTS}')  # for {plain}"
    )
    return {**facts, 'library': 'ttl_mm', 'code': code}


def _name_in_timm(architecture: Architecture | None, plain: dict[str, Any] | None) -> str | None:
    """What timm calls the network, None if it has none."""
    if architecture is not None:
        return architecture.name if architecture.library == 'timm' else None
    usual = plain is not None and plain == {'type': 'mmpretrain.ResNet', 'depth': plain['depth']}
    return f'resnet{plain["depth"]}' if plain and usual else None


def _write_for_timm(name: str, weights: Path, images: InputSettings, folder: Path) -> None:
    """Weights and config as timm writes them."""
    timm = need('timm', 'timm')
    options = timm_options(name)
    network = timm.create_model(name, num_classes=0, checkpoint_path=str(weights), **options)
    network.pretrained_cfg = {
        **network.pretrained_cfg,
        'architecture': name,
        'tag': 'ttl_mm',
        'num_classes': 0,
        'input_size': (3, images.size, images.size),
        'fixed_input_size': False,
        'mean': [value / 255 for value in images.mean],
        'std': [value / 255 for value in images.std],
        'crop_pct': 1.0,
    }
    timm.models.save_for_hf(network, str(folder), model_args=options, safe_serialization=True)
