"""Make the figures of docs/clustering.md and print their numbers: a minute on one core.

    python tools/benchmarks/clustering_figures.py

The networks of the study of k are perceptrons on scikit-learn's digits: seconds per run, so that
every rank can be tried with the same loss, target network and gauges as in a recipe.
"""

import copy
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, normalize

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.engine.hooks.target_update_hook import cosine_momentum
from ttl_mm.evaluation.knn import knn_classify
from ttl_mm.gauges import (
    analyze_features,
    effective_rank,
    overclustering_risk,
    pole_loss,
    smallest_safe_k,
)
from ttl_mm.models.losses import truncated_triplet_loss
from ttl_mm.report.chart import COLORS, FAINT, canvas, look_of
from ttl_mm.report.clustering_figures import both_sides_figure, label_ranks, rank_figure

FIGURES = Path(__file__).resolve().parents[2] / 'docs' / 'figures'
DEPUTIES = {
    'rank 1': (1, 1),
    'rank 5': (5, 5),
    'ranks 2..10': (2, 10),
    'rank 26': (26, 26),
    'rank 52 = m/2': (52, 52),
}
BATCH, EPOCHS, NUM_TRAIN, CLASSES, RISK = 64, 40, 1200, 10, 1e-3
RANKS = (1, 2, 5, 10, 16, 24, 32)


def save(name: str, figure) -> None:
    figure.savefig(FIGURES / f'{name}.png', dpi=110)
    print(f'docs/figures/{name}.png', file=sys.stderr)


def pole_loss_figure(n: int, choices: Mapping[str, tuple[int, int]]) -> Figure:
    """Loss that a network with few poles can reach, for several ranks of the deputy."""
    poles = np.arange(1, n + 1)
    with canvas() as (figure, axes):
        for index, (name, ranks) in enumerate(choices.items()):
            losses = [pole_loss(n, int(g), ranks) for g in poles]
            best = int(np.argmin(losses))
            axes.plot(poles, losses, label=name, **look_of(index))
            axes.plot(poles[best], losses[best], 'o', color=look_of(index)['color'], markersize=5)
        axes.set_xscale('log')
        axes.set_xlabel(f'poles on which the {n} images of a batch lie')
        axes.set_ylabel('loss')
        axes.legend(title='deputy', title_fontsize=8.5)
        label_ranks(axes.xaxis, n)
    return figure


def sweep_figure(
    ranks: Sequence[int],
    accuracy: Sequence[float],
    effective_rank: Sequence[float],
    label: str,
    safe: int | None = None,
) -> Figure:
    """Measured accuracy and effective rank against k, one above the other."""
    with canvas(height=4.2, rows=2) as (figure, (above, below)):
        above.plot(ranks, accuracy, 'o-', color=COLORS[2], markersize=4.5)
        below.plot(ranks, effective_rank, 'o-', color=COLORS[0], markersize=4.5)
        above.set(ylabel=label, xscale='log')
        below.set(ylabel='effective rank', xscale='log', xlabel='rank k of the deputy')
        below.set_ylim(bottom=0)
        if safe is not None:
            for axes in (above, below):
                axes.axvline(safe, color=FAINT, linestyle=':', linewidth=1.2)
            below.annotate(' smallest safe k', (safe, 0), va='bottom', fontsize=8)
        label_ranks(below.xaxis, max(ranks))
    return figure


def descend(k: int, n: int = 64, dimension: int = 16, steps: int = 1000) -> float:
    """Effective rank of free unit vectors, each its own positive, at the end of the gradient."""
    points = torch.randn(n, dimension, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        points = normalize(points).requires_grad_()
        (gradient,) = torch.autograd.grad(truncated_triplet_loss(points, points, (k, k)), points)
        points = (points - 15.0 * gradient).detach()
    return effective_rank(points)


def descent_figure():
    ranks = [1, 2, 4, 8, 12, 16, 20, 24, 28, 32]
    reached = [descend(k) for k in ranks]
    shown = ', '.join(f'{rank:.1f} at k = {k}' for k, rank in zip(ranks, reached))
    print(f'- effective rank of 64 free vectors: {shown}')
    with canvas() as (figure, axes):
        axes.plot(ranks, reached, 'o-', color=COLORS[0], markersize=4.5)
        axes.axhline(16, color=FAINT, linestyle=':', linewidth=1.2)
        axes.annotate('all 16 dimensions', (32, 16), ha='right', va='bottom', fontsize=8)
        axes.set_ylim(0, 18)
        axes.set_xlabel('rank k of the deputy, of 63 negatives')
        axes.set_ylabel('effective rank after descent')
    return figure


def digits() -> tuple[Tensor, Tensor]:
    """(1797, 1, 8, 8) images in a random order, and their classes."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    return images[order], torch.tensor(data.target)[order]


def random_view(images: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate by up to 15 degrees, scale, move, change the contrast, add noise."""
    n = len(images)
    angle = (torch.rand(n, generator=generator) - 0.5) * 0.52
    scale = 0.8 + 0.4 * torch.rand(n, generator=generator)
    moved = (torch.rand(n, 2, generator=generator) - 0.5) * 0.5
    cos, sin = scale * angle.cos(), scale * angle.sin()
    theta = torch.stack([cos, -sin, moved[:, 0], sin, cos, moved[:, 1]], dim=1).view(n, 2, 3)
    views = grid_sample(images, affine_grid(theta, images.shape, False), align_corners=False)
    contrast = 0.6 + 0.8 * torch.rand(n, 1, 1, 1, generator=generator)
    return views * contrast + 0.1 * torch.randn(images.shape, generator=generator)


def perceptron(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.BatchNorm1d(narrow), nn.ReLU()]
    return nn.Sequential(*layers)


def train(images: Tensor, k: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and projector after training with rank k."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), perceptron(64, 256, 128))
    projector = nn.Sequential(perceptron(128, 256), nn.Linear(256, 64))
    predictor = nn.Sequential(perceptron(64, 256), nn.Linear(256, 64))
    online = nn.Sequential(encoder, projector)
    target = copy.deepcopy(online).requires_grad_(False)
    parameters = [*online.parameters(), *predictor.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        if step % (len(images) // BATCH) == 0:
            batches = iter(torch.randperm(len(images), generator=generator).split(BATCH))
        batch = images[next(batches)]
        one, two = (random_view(batch, generator) for _ in range(2))
        keys = target(two), target(one)
        queries = (predictor(online(view)) for view in (one, two))
        loss = sum(truncated_triplet_loss(q, z, (k, k)) for q, z in zip(queries, keys))
        optimizer.zero_grad()
        (2 * loss).backward()
        optimizer.step()
        schedule.step()
        momentum = cosine_momentum(step, steps, start=0.9)
        torch._foreach_lerp_(
            list(target.parameters()), [p.detach() for p in online.parameters()], 1 - momentum
        )
    return encoder.eval(), projector.eval()


def study_of_k(images: Tensor, labels: Tensor) -> dict[int, Tensor]:
    """Train by every rank, draw accuracy and effective rank; returns the test features by rank."""
    accuracies, dimensions, features = [], [], {}
    for k in RANKS:
        encoder, projector = train(images[:NUM_TRAIN], k)
        with torch.no_grad():
            all_features = encoder(images)
            dimensions.append(effective_rank(projector(all_features)))
        known, asked = all_features[:NUM_TRAIN], all_features[NUM_TRAIN:]
        predicted = knn_classify(known, labels[:NUM_TRAIN], asked)
        accuracies.append(100 * (predicted == labels[NUM_TRAIN:]).float().mean().item())
        features[k] = asked
    rows = {'kNN top-1 (%)': accuracies, 'effective rank of the projections': dimensions}
    print(
        markdown(['k', *RANKS], [[name, *(f'{v:.1f}' for v in row)] for name, row in rows.items()])
    )
    print()
    safe = smallest_safe_k(BATCH - 1, 1 / CLASSES, RISK)
    save('sweep_digits', sweep_figure(RANKS, accuracies, dimensions, 'kNN top-1 (%)', safe))
    return features


def ranks_figure(sets: dict[str, Tensor], labels: Tensor):
    """False negatives by rank of several sets of features."""
    analyses = {n: analyze_features(f, labels, BATCH, risk=RISK) for n, f in sets.items()}
    for name, a in analyses.items():
        print(
            f'- {name}: class divergence {a.divergence:.2f}, hardest negative false '
            f'{a.rates[0]:.0%}, first rank at chance {a.measured_k}'
        )
    some = next(iter(analyses.values()))
    rates = {name: analysis.rates for name, analysis in analyses.items()}
    return rank_figure(rates, some.chance, some.perfect_rates)


def main() -> None:
    torch.set_num_threads(1)  # so that everybody gets the same sums
    FIGURES.mkdir(parents=True, exist_ok=True)
    for k, printed in ((5, '3.03e-94'), (52, '6.53e-121')):
        exact = overclustering_risk(104, k, 1 / 1000)
        print(f'- m = 104, k = {k}, p = 1/1000: the paper has {printed}, exact is {exact:.6e}')
    save('both_sides_imagenet', both_sides_figure(103, 1000, RISK))
    save('both_sides_digits', both_sides_figure(BATCH - 1, CLASSES, RISK))
    save('pole_loss', pole_loss_figure(104, DEPUTIES))
    save('descent', descent_figure())
    print()
    images, labels = digits()
    features = study_of_k(images, labels)
    pixels = images[NUM_TRAIN:].flatten(1)
    sets = {
        'noise': torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0)),
        'pixels': pixels - pixels.mean(0),
        'trained, rank 5': features[5],
        'trained, rank 32 = m/2': features[32],
    }
    save('ranks_digits', ranks_figure(sets, labels[NUM_TRAIN:]))


if __name__ == '__main__':
    main()
