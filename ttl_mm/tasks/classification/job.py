"""What ``ttl finetune`` does: a classifier for every seed and start, a table and a page."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.datasets.image_list import list_digest
from ttl_mm.explore.comparison import Interval, accuracy, lead
from ttl_mm.finetuning.job import PRETRAINED, RANDOM, Say, close, train_all, write_config
from ttl_mm.tasks.classification.config import Training
from ttl_mm.tasks.classification.labels import draw, find_labeled
from ttl_mm.tasks.classification.page import write_classifier_page
from ttl_mm.tasks.classification.source import open_source
from ttl_mm.tasks.classification.tables import write_predictions
from ttl_mm.tasks.classification.train import ClassifierTask, Tested

Runs = dict[str, list[Tested]]  # by start; one for every seed


@dataclass(frozen=True)
class Finetuned:
    """A finished job."""

    paths: dict[str, Path]  # out, classifier, predictions, page
    runs: Runs

    def accuracy(self, start: str = PRETRAINED) -> Interval:
        """Top-1 in percent over the seeds, with its 95 % confidence interval."""
        return accuracy(_correct(self.runs[start]))

    @property
    def lead(self) -> Interval | None:
        """Points by which the pre-trained start is ahead of the random one; None without it."""
        if RANDOM not in self.runs:
            return None
        return lead(*(_correct(self.runs[start]) for start in (PRETRAINED, RANDOM)))


def _correct(runs: list[Tested]) -> np.ndarray:
    return np.stack([run.correct for run in runs])


def finetune(
    labeled: str | Path, weights: str, out: str | Path | None = None, frozen: bool = False,
    fraction: float | None = None, per_class: int | None = None, seeds: int = 1,
    baseline: bool = True, epochs: int | None = None, size: int | None = None,
    batch_size: int = 64, rate: float | None = None, workers: int = 2, device: str | None = None,
    config_out: str | Path | None = None, say: Say = print,
) -> Finetuned | None:  # fmt: skip
    """Train classifiers on labeled folders; the same call again continues or returns.

    Args:
        labeled: A folder of classes, or a folder with ``train`` and ``val`` or ``test``.
        weights: Of the backbone, in any layout that ``ttl import`` reads.
        out: Folder for everything that is written.
        frozen: Train the classifier alone; the whole network by default.
        fraction: Learn from this share of every class, another draw for every seed.
        per_class: Learn from so many images of every class, another draw for every seed.
        seeds: How many times to train.
        baseline: Whether to train from random weights, too, under the same budget.
        epochs: Length of a run at most; fitted to the number of images by default.
        size: Edge of the images; that of pre-training by default.
        batch_size: Images of a step; all where there are fewer.
        rate: Learning rate of the backbone, 0.01 by default.
        workers: Processes that load images.
        device: Where to test.
        config_out: Write the config of the first run instead of training.
        say: Receives the lines for the user.

    Returns:
        The finished job; None after ``config_out``.

    Raises:
        UserError: Something to correct; nothing was overwritten.
        RunEndedError: A run was interrupted or stopped by a guard; the same call continues.
    """
    source, data = open_source(weights, size), find_labeled(labeled)
    training = Training(epochs, batch_size, rate, workers, frozen)
    drawn: dict[str, Any] = {'fraction': fraction, 'per_class': per_class}
    task = ClassifierTask(source, data, partial(draw, data, **drawn), training, device)
    say(_summary(task))
    if config_out is not None:
        write_config(task, config_out, 0, say)
        return None
    asked = {
        'labeled': str(Path(labeled).resolve()), 'weights': source.weights, 'size': source.size,
        'images': list_digest([*data.pool.names, '', *data.test.names]), 'seeds': seeds,
        **drawn, **asdict(training),
    }  # fmt: skip
    out = out or Path('work_dirs') / f'finetune_{Path(labeled).stem}'
    runs: Runs = {}
    for run in train_all(task, out, asked, range(seeds), baseline, say):
        runs.setdefault(run.start, []).append(Tested(run, data.test.labels))
    return _close(task, runs, say)


def _summary(task: ClassifierTask) -> str:
    data, splits = task.data, task.splits(0)
    counts = ', '.join(f'{len(split):,} for {name}' for name, split in splits.items())
    return (
        f'{len(data.classes)} classes; images: {counts}, {len(data.test):,} for test '
        f'({data.how}); {task.source.size} px.'
    )


def _close(task: ClassifierTask, runs: Runs, say: Say) -> Finetuned:
    """Keep the classifier that was best on its validation images; write tables and page."""
    data, best = task.data, max(runs[PRETRAINED], key=lambda tested: tested.validation)
    predictions = best.run.folder.parents[1] / 'predictions.csv'
    names, truth = ([data.classes[i] for i in k] for k in (best.predicted, best.labels))
    write_predictions(predictions, data.test.names, names, best.confidence, truth)
    found = Finetuned({}, runs)
    figures = {start: found.accuracy(start) for start in runs}
    if found.lead is not None:
        figures['difference'] = found.lead
    lines = [
        'top-1 in %, with 95 % confidence intervals over seeds and test images',
        *(f'{k:12}{_shown(v, "+" if k == "difference" else "")}' for k, v in figures.items()),
        verdict(found.lead),
    ]
    paths = close(
        task, best.run, {name: value._asdict() for name, value in figures.items()},
        lambda out: write_classifier_page(out, data, runs, figures, best, lines[-1]),
        lines, say, files=[predictions],
    )  # fmt: skip
    return Finetuned(paths, runs)


def _shown(value: Interval, sign: str = '') -> str:
    low, high = (format(number, f'{sign}.1f') for number in (value.low, value.high))
    return f'{format(value.mean, f"{sign}.1f")} ({low} to {high})'


def verdict(ahead: Interval | None) -> str:
    """Whether pre-training has helped, in one sentence; nothing without a baseline."""
    if ahead is None:
        return ''
    points = f'{ahead.mean:+.1f} points ({ahead.low:+.1f} to {ahead.high:+.1f})'
    if ahead.low > 0:
        return f'Pre-training helps: {points} against random weights under the same budget.'
    if ahead.high < 0:
        return f'Pre-training harms: {points} against random weights under the same budget.'
    return f'No difference to random weights under the same budget can be seen: {points}.'
