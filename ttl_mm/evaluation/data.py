"""The two splits that an evaluation needs, from a folder or from a config."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.registry import DefaultScope
from torch.utils.data import Dataset

from ttl_mm.checkpoint.coverage import some
from ttl_mm.config import read_config
from ttl_mm.datasets.build_dataset import build_dataset
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.part import Part
from ttl_mm.errors import UserError, counted
from ttl_mm.files.stores.listing import local_root, remote_archives
from ttl_mm.files.stores.url import is_url

TEST_NAMES = ('val', 'test', 'valid', 'validation')
TEST_SHARE = 0.2


def evaluation_pipeline(size: int, bands: dict | None = None) -> list[dict]:
    """A single center crop: short side to 256 / 224 of ``size``, then the middle.

    Images meant for networks with small inputs, below 96 pixels, have no margin to crop away.

    Args:
        size: Pixels of the crop.
        bands: For images beyond 8-bit RGB, the range that the network was trained on.
    """
    edge = round(size * 256 / 224) if size >= 96 else size
    resize = {'scale': edge, 'edge': 'short', 'interpolation': 'bilinear', 'backend': 'pillow'}
    load: list[dict] = [{'type': 'ttl_mm.LoadImage'}, {'type': 'mmpretrain.ResizeEdge', **resize}]
    if bands is not None:
        load = [{'type': 'ttl_mm.LoadBands', 'bands': bands, 'scale': edge}]
    return [
        *load,
        {'type': 'mmpretrain.CenterCrop', 'crop_size': size},
        {'type': 'mmpretrain.PackInputs'},
    ]


def open_splits(data: str, size: int, bands: dict | None = None) -> tuple[dict[str, Dataset], str]:
    """The labeled splits ``train`` and ``test``, and a phrase that says how they were made.

    Args:
        data: a folder with ``train`` and ``val`` or ``test``, each with a sub-folder per class; or
            a folder of classes, of which a fifth is held out; or a config with datasets.
        size: images are brought to squares of so many pixels.
        bands: as for :func:`evaluation_pipeline`.
    """
    splits, how = (_from_config if data.endswith('.py') else _from_folder)(data, size, bands)
    check_classes({name: split.metainfo['classes'] for name, split in splits.items()}, data)
    return splits, how


def _from_config(path: str, size: int, bands: dict | None) -> tuple[dict, str]:
    config = read_config(path)
    loaders = {
        'train': config.get('train_dataloader'),
        'test': config.get('test_dataloader') or config.get('val_dataloader'),
    }
    splits = {}
    for name, loader in loaders.items():
        if not loader:
            raise UserError(f'{path} has no {name}_dataloader: an evaluation needs both splits.')
        dataset = {**loader['dataset'], 'pipeline': evaluation_pipeline(size, bands)}
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            splits[name] = build_dataset(dataset, path)
    return splits, 'as the config splits them'


def _from_folder(path: str, size: int, bands: dict | None) -> tuple[dict, str]:
    root = Path(path)
    if is_url(path):
        remote_archives(path)  # whose folders are there from now on
        root = local_root(path)
    if folders := split_folders(root):
        test = folders['test']
        splits = {name: labeled_folder(folder, size, bands) for name, folder in folders.items()}
        return splits, f'folders train and {test.name}'
    whole = labeled_folder(root, size, bands)
    held_out = hold_out(list(whole.names), whole.labels, whole.metainfo['classes'])
    chosen = {'train': ~held_out, 'test': held_out}
    parts = {name: Part(whole, np.flatnonzero(rows)) for name, rows in chosen.items()}
    return parts, f'{TEST_SHARE:.0%} of every class held out, chosen by the hash of the names'


def split_folders(root: Path) -> dict[str, Path]:
    """The folders of the splits 'train' and 'test' in ``root``; none if its folders are classes."""
    test = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    train = root / 'train'
    return {'train': train, 'test': test} if test is not None and train.is_dir() else {}


def labeled_folder(root: str | Path, size: int, bands: dict | None = None) -> ImageFolder:
    """The images of a folder with one sub-folder per class, as an evaluation sees them.

    Of a folder with the splits train and val they are those of train.
    """
    root = split_folders(Path(root)).get('train', root)
    return ImageFolder(str(root), evaluation_pipeline(size, bands), with_label=True)


def hold_out(names: list[str], labels: Any, classes) -> np.ndarray:
    """Which images (N,) to test on: of every class the fifth with the smallest SHA-256 of names."""
    chosen = np.zeros(len(names), bool)
    ranks = [hashlib.sha256(os.fsencode(name)).digest() for name in names]
    for label, name in enumerate(classes):
        members = sorted(np.flatnonzero(labels == label), key=lambda i: ranks[i])
        if len(members) < 2:
            raise UserError(
                f'class {name} has {len(members)} image: two are needed, one to train on and one '
                'to test on.'
            )
        chosen[members[: max(1, round(TEST_SHARE * len(members)))]] = True
    return chosen


def check_classes(classes: dict[str, tuple[str, ...]], where: str) -> None:
    """Both splits have the same classes, and more than one."""
    train, test = (set(classes[name]) for name in ('train', 'test'))
    for one, other, missing in (('train', 'test', train - test), ('test', 'train', test - train)):
        if missing:
            raise UserError(
                f'{where}: {counted(len(missing), "class", "classes")} in the {one} split and not '
                f'in the {other} split ({some(sorted(missing), 5)}): both need the same '
                'sub-folders.'
            )
    if len(train) < 2:
        raise UserError(
            f'{where} has a single class ({next(iter(train), "none")}): two are needed. Images lie '
            'in one sub-folder per class.'
        )
