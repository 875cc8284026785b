"""Pictures of features: a t-SNE map and a confusion matrix."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from ttl_mm.errors import printable

CANVAS: dict = {'figsize': (9, 7), 'dpi': 120, 'layout': 'constrained'}
FEW = 20  # classes that can be distinguished by color, and named along an axis


def _plain(classes: Sequence[str]) -> list[str]:
    """The names as matplotlib can draw them: without odd bytes, and a dollar begins no formula."""
    return [printable(name).replace('$', r'\$') for name in classes]


def draw_tsne(features, labels, classes, path: str | Path, max_points: int = 2000) -> None:
    """A t-SNE map, colored by class, of at most ``max_points`` evenly chosen samples."""
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize

    chosen = np.linspace(0, len(labels) - 1, min(max_points, len(labels))).round().astype(int)
    unit = normalize(np.asarray(features[chosen], np.float64))
    perplexity = min(30.0, (len(chosen) - 1) / 3)
    points = TSNE(perplexity=perplexity, init='pca', random_state=0).fit_transform(unit)
    figure = Figure(**CANVAS)
    axes = figure.add_subplot()
    colors = colormaps['tab20' if len(classes) > 10 else 'tab10']
    for number, name in enumerate(_plain(classes)):
        x, y = points[labels[chosen] == number].T
        axes.scatter(x, y, s=8, color=colors(number % colors.N), label=name, linewidths=0)
    if len(classes) <= FEW:
        axes.legend(loc='center left', bbox_to_anchor=(1, 0.5), frameon=False, markerscale=2)
    axes.set(xticks=[], yticks=[], title=f't-SNE of {len(chosen)} of {len(labels)} features')
    figure.savefig(path)


def draw_confusion(labels, predicted, classes, path: str | Path, classifier: str) -> None:
    """Write the picture of :func:`confusion_figure`."""
    confusion_figure(labels, predicted, classes, classifier).savefig(path)


def confusion_figure(labels, predicted, classes, classifier: str) -> Figure:
    """The confusion matrix: rows are the true classes, shares of a row add up to 1."""
    from sklearn.metrics import confusion_matrix

    matrix = confusion_matrix(labels, predicted, labels=range(len(classes)))
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    figure = Figure(**CANVAS)
    axes = figure.add_subplot()
    image = axes.imshow(shares, vmin=0, vmax=1, cmap='Blues')
    figure.colorbar(image, ax=axes, label='share of the true class')
    title = f'{classifier}\ntop-1 {100 * np.mean(labels == predicted):.1f} %'
    axes.set(xlabel='predicted', ylabel='true', title=title)
    if len(classes) <= FEW:
        axes.set_xticks(range(len(classes)), _plain(classes), rotation=45, ha='right')
        axes.set_yticks(range(len(classes)), _plain(classes))
        for (row, column), count in np.ndenumerate(matrix):
            if count:
                color = 'white' if shares[row, column] > 0.5 else 'black'
                axes.text(column, row, count, ha='center', va='center', color=color, fontsize=7)
    return figure
