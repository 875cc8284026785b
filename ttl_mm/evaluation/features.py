"""Run a network over a dataset and write its features to a file."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mmengine
import mmpretrain
import numpy as np
import torch
from mmengine.dataset import default_collate
from mmengine.dist import barrier, get_dist_info
from torch import nn
from torch.utils.data import DataLoader

from ttl_mm.datasets.decode import BadImageError
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import Features, FeatureWriter, read_features
from ttl_mm.evaluation.forward import evaluating, extract_batches, output_stages
from ttl_mm.files.archives.member import image_file_size
from ttl_mm.files.plain_json import parse_json
from ttl_mm.version import __version__


def extract_features(
    backbone: nn.Module, preprocessor: nn.Module, dataset: Any, path: str | Path,
    about: dict | None = None, stages: Sequence[int] = (4,), batch_size: int = 128,
    num_workers: int = 0, progress=lambda done, total: None, replace: bool = True,
) -> Features:  # fmt: skip
    """Write the pooled features of every image of ``dataset`` to ``path`` and open the file.

    Every process of a group takes its share of the batches. A finished file of the same origin is
    opened as it is, an unfinished one is completed.

    Args:
        backbone: maps images to feature maps.
        preprocessor: moves a batch to the backbone's device and normalizes it.
        dataset: labeled; its items are as PackInputs makes them, the same on every access.
        path: the file to make.
        about: origin of the weights and of the images, kept in the file.
        stages: which stages, counted from 1.
        batch_size: images per forward pass.
        num_workers: processes that load images.
        progress: called with the images done and the images in all, on the first process.
        replace: whether a file that is there and of another origin may be replaced.
    """
    path, total = Path(path), len(dataset)
    if total == 0:
        raise UserError('the dataset is empty: there is nothing to extract features of.')
    about = {**(about or {}), 'weights': weights_hash(backbone), 'stages': sorted(stages)}
    about |= data_identity(dataset)
    about['versions'] = versions()
    if (found := _read_current(path, about)) is not None:
        return found
    if path.exists() and not replace:
        raise UserError(
            f'{path} exists and holds something else: name another file with --out, or add '
            '--overwrite.'
        )
    rank, world = get_dist_info()
    with evaluating(backbone), output_stages(backbone, stages):
        dims = _dims(backbone, preprocessor, dataset, sorted(stages))
        names = [_name(dataset, i) for i in range(total)]
        shared = (path, dims, names, dataset.metainfo['classes'], about, batch_size)
        writer = FeatureWriter(*shared) if rank == 0 else None
        barrier()
        writer = writer or FeatureWriter(*shared, create=False)
        missing = writer.missing()
        barrier()  # everybody has seen the same list
        mine, all_rows = missing[rank::world], range(total)
        loader = DataLoader(
            dataset,
            batch_sampler=[list(all_rows[b * batch_size : (b + 1) * batch_size]) for b in mine],
            num_workers=num_workers,
            collate_fn=default_collate,
        )
        rows_of = extract_batches(backbone, preprocessor, _naming_the_remedy(loader))
        for count, (batch, (outputs, labels)) in enumerate(zip(mine, rows_of), 1):
            rows = {s: x.cpu().numpy() for s, x in zip(sorted(stages), outputs)}
            writer.write(batch, rows, labels.numpy())
            if rank == 0:
                left = (len(missing) - count * world) * batch_size
                progress(min(total, max(0, total - left)), total)
    barrier()
    if rank == 0:
        writer.finish()
    barrier()
    return read_features(path)


def _naming_the_remedy(batches: Iterable[dict]) -> Iterator[dict]:
    """Training replaces an image that cannot be read; a figure is of all images or of none."""
    try:
        yield from batches
    except BadImageError as fault:
        raise UserError(f'{fault}: repair this file, or take it out of the folder.') from None


def _read_current(path: Path, about: dict) -> Features | None:
    """The file if it is there and of this origin."""
    try:
        found = read_features(path)
    except UserError:  # missing, damaged or of another kind
        return None
    wanted = {**parse_json(json.dumps(about)), 'stage': found.about['stage']}
    return found if found.about == wanted else None


def _dims(backbone, preprocessor, dataset, stages: list[int]) -> dict[int, int]:
    """How many features each stage has, from one image."""
    first = _naming_the_remedy(default_collate([dataset[index]]) for index in (0,))
    ((outputs, _),) = extract_batches(backbone, preprocessor, first)
    return {stage: x.shape[1] for stage, x in zip(stages, outputs)}


def _name(dataset, index: int) -> str:
    """The image's path below the root of its dataset, or its number where it has none."""
    path = dataset.get_data_info(index).get('img_path')
    if path is None:
        return str(index)
    root = getattr(dataset, 'data_root', None)
    if root and Path(path).is_relative_to(root):
        return str(Path(path).relative_to(root))
    return str(path)


def weights_hash(module: nn.Module) -> str:
    """SHA-256 of all tensors with their names, whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if not name.endswith('num_batches_tracked'):  # nothing is computed from it
            digest.update(f'{name} {tensor.dtype} {tuple(tensor.shape)}\n'.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def data_identity(dataset, alive: Callable[[], None] = lambda: None) -> dict:
    """How many images, and a SHA-256 of their names, labels and sizes in bytes.

    Images that a dataset holds in memory are hashed whole. ``alive`` is called once in a while: a
    look at a million files takes long on a slow file system.
    """
    digest = hashlib.sha256()
    for i in range(len(dataset)):
        if i % 1000 == 0:
            alive()
        info = dataset.get_data_info(i)
        if path := info.get('img_path'):
            content = str(image_file_size(path))
        else:
            content = hashlib.sha256(np.ascontiguousarray(info['img']).data).hexdigest()
        digest.update(
            f'{_name(dataset, i)}\t{content}\t{info.get("gt_label")}\n'.encode(
                'utf-8', 'surrogateescape'
            )
        )
    return {'images': len(dataset), 'data': digest.hexdigest()}


def versions() -> dict[str, str]:
    """The versions that a figure depends on."""
    others = {m.__name__: m.__version__ for m in (torch, mmpretrain, mmengine)}
    return {'ttl_mm': __version__, **others}
