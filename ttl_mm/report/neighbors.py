"""Nearest neighbors in feature space: a section of pictures for a run with labeled probe data."""

from pathlib import Path

import numpy as np
import torch
from mmengine.logging import MMLogger
from mmengine.model import BaseModel
from mmengine.registry import init_default_scope
from mmengine.runner import set_random_seed
from torch import Tensor

from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.sealed import newest_valid
from ttl_mm.config import read_config
from ttl_mm.datasets.bands import picture
from ttl_mm.datasets.picture_grid import Tile, fit, picture_grid
from ttl_mm.errors import UserError
from ttl_mm.evaluation.neighbor_search import nearest_neighbors
from ttl_mm.evaluation.probe import NAMES, Probe, probe_of
from ttl_mm.registry import MODELS
from ttl_mm.report.page import Picture, Section, Table

RIGHT, WRONG = (26, 127, 55), (194, 65, 12)
HEIGHT = 72  # pixels of an image
SETS = ('train', 'test')


def neighbors_section(work_dir: str | Path, queries: int = 8, shown: int = 8) -> Section:
    """Evaluate the newest checkpoint of a run on the data of its ProbeHook; executes its config.

    Shows some test images as ``queries``, each with so many neighbors.
    """
    probe, model = _probe_and_model(Path(work_dir))
    untrained = probe.measure(model)
    checkpoint = _load_newest(model, Path(work_dir))
    (train, train_labels), (test, test_labels) = (probe.features(model, s) for s in SETS)
    images = {name: images_of(probe, name) for name in SETS}
    pixels = [torch.from_numpy(images[s].copy()).flatten(1).float() for s in SETS]
    measured = [
        _accuracies(probe.classify(pixels[0], train_labels, pixels[1]), test_labels),
        untrained,
        _accuracies(probe.classify(train, train_labels, test), test_labels),
    ]
    rows = [[f'{NAMES[key]}, %', *(f'{m[key]:.1f}' for m in measured)] for key in untrained]
    similarity, nearest = map(torch.cat, zip(*nearest_neighbors(train, test, shown)))
    hits = train_labels[nearest] == test_labels[:, None]  # (Q, shown)
    hardest = hits.float().mean(dim=1).argsort(stable=True)[: queries // 2]
    spread = torch.linspace(0, len(test) - 1, queries - len(hardest)).long()
    chosen = torch.cat([spread, hardest])
    picture = draw_neighbors(images, nearest[chosen], hits[chosen], similarity[chosen], chosen)
    caption = (
        'Test images (left) and their nearest training images by cosine similarity. The upper half '
        'is spread over the test set, the lower half are the hardest. Green: same class; orange, '
        'marked with a cross: another class.'
    )
    return Section(
        title='Before and after',
        text=[
            f'{checkpoint.name} of the run {checkpoint.parent.name}: the same classifiers on raw '
            'pixels, on the features of the untrained network and on those of the trained one. '
            'Labels were used to measure, never to train.',
            'Raw pixels are the bar to beat: features below them are not worth their cost.',
            *(
                gain(name, untrained[k], measured[2][k], len(test))
                for k, name in NAMES.items()
                if k in untrained
            ),
        ],
        tables=[Table(['', 'raw pixels', 'untrained', 'trained'], rows)],
        pictures=[Picture('neighbors', picture, caption, wide=True)],
    )


def gain(name: str, before: float, after: float, images: int) -> str:
    """What training has changed in a figure, in percent, against the chance of ``images`` images.

    >>> gain('kNN top-1', 26.0, 35.0, 500)
    'Training raised kNN top-1 by 9.0 points; the standard error on 500 images is 2.9.'
    """
    error = 100 * sum(p / 100 * (1 - p / 100) / images for p in (before, after)) ** 0.5
    points, chance = after - before, f'the standard error on {images:,} images is {error:.1f}'
    if abs(points) > 2 * error:
        verb = 'raised' if points > 0 else 'lowered'
        return f'Training {verb} {name} by {abs(points):.1f} points; {chance}.'
    return (
        f'{name} changed by {points:+.1f} points, which can be chance: {chance}. Train longer, or '
        'measure on more images, to see whether training helps.'
    )


def draw_neighbors(
    images: dict[str, np.ndarray], nearest: Tensor, hits: Tensor, similarity: Tensor, rows: Tensor
) -> np.ndarray:
    """A picture, RGB: one row per query, its image and then its neighbors."""
    grid = []
    for query, neighbors, same, cosines in zip(rows, nearest, hits, similarity):
        row = [Tile(fit(as_picture(images['test'][query]), HEIGHT), 'query')]
        for neighbor, right, cosine in zip(neighbors, same.tolist(), cosines.tolist()):
            caption, color = (f'{cosine:.2f}', RIGHT) if right else (f'{cosine:.2f} x', WRONG)
            tile = fit(as_picture(images['train'][neighbor]), HEIGHT)
            row.append(Tile(tile, caption, color))
        grid.append(row)
    return picture_grid(grid)


def as_picture(image: np.ndarray) -> np.ndarray:
    """An image as people see it, uint8; channels beyond RGB are side by side."""
    return image if image.dtype == np.uint8 else picture(image)


def _probe_and_model(work_dir: Path) -> tuple[Probe, BaseModel]:
    """The probe of a run, its datasets built, and its model as it started."""
    configs = sorted(work_dir.glob('*.py'))
    if not configs:
        raise UserError(f'{work_dir} holds no config: give the work dir of a run.')
    cfg = read_config(configs[0])
    MMLogger.get_instance('report', log_level='WARNING')  # initializing logs every tensor
    init_default_scope(cfg.default_scope)
    probe = probe_of(configs[0])
    set_random_seed(cfg.get('randomness', {}).get('seed'))
    model = MODELS.build(cfg.model)
    model.init_weights()
    return probe, model


def _load_newest(model: BaseModel, work_dir: Path) -> Path:
    path, _ = newest_valid(work_dir.resolve())
    if path is None:
        raise UserError(f'{work_dir} holds no checkpoint yet: let the run save one.')
    load_state(model.backbone, load_backbone_state(path), str(path))
    return path


def images_of(probe: Probe, name: str) -> np.ndarray:
    """The images whose features the probe takes, (N, H, W, C); three channels are RGB."""
    chosen = probe.chosen(name)
    bgr = torch.stack([probe.datasets[name][i]['inputs'] for i in chosen])  # (N, C, H, W)
    images = bgr.permute(0, 2, 3, 1).numpy()
    return images[..., ::-1] if images.shape[3] == 3 else images


def _accuracies(predicted: dict[str, Tensor], labels: Tensor) -> dict[str, float]:
    return {name: 100 * (p == labels).double().mean().item() for name, p in predicted.items()}
