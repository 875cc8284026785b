"""Make the figures of docs/clustering.md.

    python tools/benchmarks/clustering_figures.py                               # seconds
    python tools/benchmarks/clustering_figures.py --train work_dirs/clustering  # 2 min a rank

The second trains the digits recipe once per rank; runs that are there already are not repeated.
"""

import argparse
from pathlib import Path

import torch
from torch.nn.functional import normalize

from ttl_mm.analysis import analyze_features, effective_rank, overclustering_risk, smallest_safe_k
from ttl_mm.analysis.report import load_run
from ttl_mm.analysis.report.clustering import (
    both_sides_figure,
    pole_loss_figure,
    rank_figure,
    sweep_figure,
)
from ttl_mm.analysis.report.figures import COLOURS, canvas
from ttl_mm.models.losses import truncated_triplet_loss

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / 'docs' / 'figures'
DEPUTIES = {
    'rank 1': (1, 1),
    'rank 5': (5, 5),
    'ranks 2..10': (2, 10),
    'rank 26': (26, 26),
    'rank 52 = m/2': (52, 52),
}
BATCH, EPOCHS, DIGIT_CLASSES, RISK = 64, 12, 10, 1e-3
RANKS = (1, 5, 10, 16, 24, 32)


def save(name: str, figure) -> None:
    figure.savefig(FIGURES / f'{name}.png', dpi=110)
    print(f'docs/figures/{name}.png')


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
    print('effective rank of 64 free vectors:', {k: round(r, 1) for k, r in zip(ranks, reached)})
    with canvas() as (figure, axes):
        axes.plot(ranks, reached, 'o-', color=COLOURS[0], markersize=4.5)
        axes.axhline(16, color='#8a97a3', linestyle=':', linewidth=1.2)
        axes.annotate('all 16 dimensions', (32, 16), ha='right', va='bottom', fontsize=8)
        axes.set_ylim(0, 18)
        axes.set_xlabel('rank k of the deputy, of 63 negatives')
        axes.set_ylabel('effective rank after descent')
    return figure


def digits():
    """Pixels of the test digits and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)


def train_digits(k: int, work_dir: Path) -> None:
    """The digits recipe with rank k and batches of 64; continued where it stopped."""
    from ttl_mm.engine.launch import train

    if (work_dir / f'epoch_{EPOCHS}.pth').exists():
        return
    (recipe,) = (ROOT / 'configs').glob('*_digits_*.py')
    options = {
        'train_dataloader.batch_size': BATCH,
        'model.head.ranks': (k, k),
        'train_cfg.max_epochs': EPOCHS,
        'default_hooks.target_update.horizon_epochs': EPOCHS,
        'param_scheduler.1.T_max': EPOCHS,
        'param_scheduler.1.end': EPOCHS,
        'default_hooks.logger.interval': 18,
    }
    train(str(recipe), work_dir=str(work_dir), resume='auto', cfg_options=options)


def digits_sweep(folder: Path, ranks: list[int]) -> None:
    """Train by every rank; draw accuracy and effective rank."""
    for k in ranks:
        train_digits(k, folder / f'rank_{k}')
    if set(ranks) != set(RANKS):
        return
    accuracy, rank = [], []
    for k in ranks:
        run = load_run(folder / f'rank_{k}')
        accuracy.append(run.series('probe/knn_top1')[1][-1])
        rank.append(run.series('gauge/effective_rank')[1][-1])
        print(f'digits, rank {k}: kNN {accuracy[-1]:.1f} %, effective rank {rank[-1]:.1f}')
    safe = smallest_safe_k(BATCH - 1, 1 / DIGIT_CLASSES, RISK)
    save('sweep_digits', sweep_figure(ranks, accuracy, rank, 'kNN top-1 (%)', safe))


def print_exact_values() -> None:
    for k, printed in ((5, '3.03e-94'), (52, '6.53e-121')):
        exact = overclustering_risk(104, k, 1 / 1000)
        print(f'm=104, k={k}, p=1/1000: printed {printed}, exact {exact:.6e}')


def untrained_figures() -> None:
    print_exact_values()
    save('both_sides_imagenet', both_sides_figure(103, 1000, RISK))
    save('both_sides_digits', both_sides_figure(BATCH - 1, DIGIT_CLASSES, RISK))
    save('pole_loss', pole_loss_figure(104, DEPUTIES))
    save('descent', descent_figure())
    pixels, labels = digits()
    centred = pixels - pixels.mean(0)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(centred.shape, generator=generator)
    sets = {'random features': noise, 'pixels': centred}
    analyses = {n: analyze_features(f, labels, BATCH, risk=RISK) for n, f in sets.items()}
    for name, a in analyses.items():
        print(f'{name}: class divergence {a.divergence:.2f}, first rank at chance {a.measured_k}')
    some = analyses['pixels']
    rates = {name: a.rates for name, a in analyses.items()}
    save('ranks_digits', rank_figure(rates, some.chance, some.perfect_rates))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--train', type=Path, metavar='WORK_DIR', help='train the digits too')
    parser.add_argument('--ranks', type=int, nargs='+', default=RANKS, help='only these')
    arguments = parser.parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    if arguments.train:
        digits_sweep(arguments.train, list(arguments.ranks))
    else:
        untrained_figures()
