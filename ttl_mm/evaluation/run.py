"""What ``ttl eval`` does: evaluate a checkpoint on a folder of images."""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.dist import get_dist_info
from torch import distributed, nn

from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline, open_splits
from ttl_mm.evaluation.feature_file import Features, is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features
from ttl_mm.evaluation.figures import evaluate_features, other_figures, table, write_json
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.outputs import check_folder, mark_folder

WRITTEN = ('tsne.png', 'confusion.png')  # figures of others in figures.json stay


def evaluate_checkpoint(
    source: Sequence[str], data: str | None = None, protocols: Sequence[str] = ('knn', 'linear'),
    k: Sequence[int] | None = None, temperature: Sequence[float] | None = None,
    stage: int | None = None, tsne: bool = False, confusion: bool = False,
    out: str | None = None, device: str | None = None, overwrite: bool = False, **extraction,
) -> list[dict] | None:  # fmt: skip
    """Extract features if necessary, measure, print a table, write ``figures.json`` and pictures.

    Args:
        source: a checkpoint; or a folder with both feature files; or the two files.
        data: for a checkpoint, what :func:`ttl_mm.evaluation.data.open_splits` takes.
        protocols: some of 'knn', 'linear', 'lowshot'.
        k: numbers of neighbors.
        temperature: temperatures of the votes.
        stage: which of the extracted stages to evaluate; the last by default.
        tsne: whether to draw a t-SNE map of the test features.
        confusion: whether to draw the confusion matrix of the first classifier.
        out: the folder for all files.
        device: where to compute.
        overwrite: whether pictures that another program wrote may be replaced.
        **extraction: of :func:`extract_splits`.

    Returns:
        The figures on the first process, None on the others.
    """
    if confusion and not {'knn', 'linear'} & set(protocols):
        raise UserError('--confusion needs a classifier: add --knn or --linear.')
    paths = find_feature_files(source)
    folder = Path(out) if out else _default_folder(source, data, paths, extraction)
    check_folder(folder, 'ttl eval', WRITTEN, overwrite)
    if paths is None:
        paths = extract_splits(source[0], data, folder, device, **extraction)
    if get_dist_info()[0] != 0:
        return None
    train, test = (read_features(path, stage) for path in paths)
    figures, predictions = evaluate_features(train, test, protocols, k, temperature, device)
    print(table(figures))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        [*figures, *other_figures(folder / 'figures.json', figures)], folder / 'figures.json'
    )
    mark_folder(folder, 'ttl eval')
    written = ['figures.json', *_draw(test, predictions, folder, tsne, confusion)]
    print(f'{", ".join(written)} in {folder}')
    return figures


def find_feature_files(source: Sequence[str]) -> tuple[Path, Path] | None:
    """The feature files to train and to test on; None if the source is a checkpoint."""
    if len(source) == 1 and Path(source[0]).is_dir():
        paths = _feature_files(Path(source[0]))
        if missing := [path for path in paths if not path.exists()]:
            raise UserError(f'{missing[0]} is missing: make it with `ttl eval CHECKPOINT`.')
        return paths
    if len(source) == 2:
        if checkpoints := [path for path in source if path.endswith(('.pth', '.pt', '.ckpt'))]:
            raise UserError(
                f'{checkpoints[0]} is a checkpoint, and two files must be those of features: '
                'evaluate one checkpoint at a time, or several by `ttl compare`.'
            )
        return Path(source[0]), Path(source[1])
    if len(source) > 2:
        raise UserError(f'{len(source)} files given: one checkpoint, or two feature files.')
    if is_feature_file(source[0]):
        raise UserError(
            f'{source[0]} holds the features of one split: give the files of both, first the one '
            'to train on.'
        )
    return None


def _default_folder(source: Sequence[str], data: str | None, paths, how: dict) -> Path:
    if paths is not None:
        return paths[1].parent
    path, images = Path(source[0].rpartition('://')[2]).resolve(), Path(data or '').resolve()
    # two runs have an epoch_8.pth each, and each is looked at in several ways
    digest = hashlib.sha256(repr((str(path), str(images), sorted(how.items()))).encode())
    name = f'{path.parent.name}_{path.stem}_{images.stem}_{digest.hexdigest()[:6]}'
    return Path('work_dirs') / 'eval' / name


def extract_splits(
    checkpoint: str, data: str | None, folder: Path, device: str | None = None,
    config: str | None = None, stages: Sequence[int] = (4,), size: int | None = None,
    batch_size: int = 128, workers: int = 0, backbone: str | nn.Module | None = None,
    untrained: int | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Extract the features of both splits into ``folder``; every process does its share.

    ``config``, ``backbone`` and ``untrained`` are those of
    :func:`~ttl_mm.evaluation.model.load_model`.
    """
    if data is None:
        raise UserError(f'{checkpoint} is a checkpoint: name the images with --data DIR.')
    join_group()
    if device is None and distributed.is_initialized() and torch.cuda.is_available():
        device = f'cuda:{os.environ.get("LOCAL_RANK", 0)}'
    network, preprocessor, about = load_model(checkpoint, config, device, backbone, untrained)
    size = size or default_size(network, about.get('trained_size'))
    splits, how = open_splits(data, size, about.get('bands'))
    edge = next(step['scale'] for step in evaluation_pipeline(size) if 'scale' in step)
    about |= {'crop': f'short side {edge}, center {size}, bilinear', 'split': how}
    paths = _feature_files(folder)
    for (name, split), path in zip(splits.items(), paths):
        extract_features(
            network, preprocessor, split, path, about, stages, batch_size, workers, Progress(name)
        )
    return paths


def _feature_files(folder: Path) -> tuple[Path, Path]:
    return folder / 'train.safetensors', folder / 'test.safetensors'


def join_group() -> None:
    """Join the processes that torchrun started, if it did."""
    if int(os.environ.get('WORLD_SIZE', 1)) > 1 and not distributed.is_initialized():
        distributed.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ['LOCAL_RANK']))


class Progress:
    """Prints one line that is overwritten on a terminal, elsewhere a line per tenth."""

    def __init__(self, name: str) -> None:
        self.name, self.tenth = name, 0

    def __call__(self, done: int, total: int) -> None:
        line = f'{self.name}: {done:,} of {total:,} images'
        if sys.stderr.isatty():
            print('\r' + line, end='\n' if done == total else '', file=sys.stderr, flush=True)
        elif 10 * done // total > self.tenth:
            self.tenth = 10 * done // total
            print(line, file=sys.stderr)


def _draw(
    test: Features, predictions: dict, folder: Path, tsne: bool, confusion: bool
) -> list[str]:
    from ttl_mm.evaluation.pictures import draw_confusion, draw_tsne

    written = []
    if tsne:
        draw_tsne(test.features, test.labels, test.classes, folder / 'tsne.png')
        written.append('tsne.png')
    if confusion:
        title, predicted = next(iter(predictions.items()))
        draw_confusion(test.labels, predicted, test.classes, folder / 'confusion.png', title)
        written.append('confusion.png')
    return written
