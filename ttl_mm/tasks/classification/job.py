"""What ``ttl finetune`` does: a classifier for every seed and start, a table and a page."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ttl_mm.datasets.image_list import list_digest
from ttl_mm.errors import UserError
from ttl_mm.explore.comparison import Interval, accuracy, lead
from ttl_mm.outputs import claim_job
from ttl_mm.planning.train_config import write_train_config
from ttl_mm.tasks.classification.config import Training, classifier_config
from ttl_mm.tasks.classification.labels import Labeled, draw, find_labeled
from ttl_mm.tasks.classification.page import write_classifier_page
from ttl_mm.tasks.classification.source import Source, open_source
from ttl_mm.tasks.classification.tables import write_predictions
from ttl_mm.tasks.classification.train import Trained, train_classifier

COMMAND = 'ttl finetune'
PRETRAINED, RANDOM = 'pre-trained', 'random'  # the starts
Runs = dict[str, list[Trained]]  # by start; one for every seed


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


def _correct(runs: list[Trained]) -> np.ndarray:
    return np.stack([run.correct for run in runs])


def finetune(
    labeled: str | Path,
    weights: str,
    out: str | Path | None = None,
    frozen: bool = False,
    fraction: float | None = None,
    per_class: int | None = None,
    seeds: int = 1,
    baseline: bool = True,
    epochs: int | None = None,
    size: int | None = None,
    batch_size: int | None = None,
    rate: float | None = None,
    workers: int = 2,
    device: str | None = None,
    config_out: str | Path | None = None,
    say: Callable[[str], None] = print,
) -> Finetuned | None:
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
        batch_size: Images of a step; 64 by default, all where there are fewer.
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
    training = Training(frozen, epochs, batch_size, rate, workers)
    splits = partial(draw, data, fraction=fraction, per_class=per_class)
    say(_summary(source, data, splits(0)))
    if config_out is not None:
        _write_config(Path(config_out), source, data, splits(0), training, say)
        return None
    asked = {
        'labeled': str(Path(labeled).resolve()), 'weights': source.weights, 'size': source.size,
        'images': list_digest([*data.pool.names, '', *data.test.names]),
        'fraction': fraction, 'per_class': per_class, 'seeds': seeds, 'baseline': baseline,
        **asdict(training),
    }  # fmt: skip
    out = claim_job(out or Path('work_dirs') / f'finetune_{Path(labeled).stem}', COMMAND, asked)
    starts = [PRETRAINED, RANDOM] if baseline else [PRETRAINED]
    runs: Runs = {start: [] for start in starts}
    for number, (seed, start) in enumerate((s, start) for s in range(seeds) for start in starts):
        folder = out / 'runs' / f'{start}_seed{seed}'
        if not (folder / 'result.json').is_file():
            say(f'Run {number + 1} of {seeds * len(starts)}: {start}, seed {seed}.')
        runs[start].append(
            train_classifier(
                source, data, splits(seed), folder, training, seed, start == RANDOM, device
            )
        )
    return _close(out, data, runs, say)


def _summary(source: Source, data: Labeled, splits: dict) -> str:
    counts = ', '.join(f'{len(split):,} for {name}' for name, split in splits.items())
    return (
        f'{len(data.classes)} classes; images: {counts}, {len(data.test):,} for test '
        f'({data.how}); {source.size} px.'
    )


def _write_config(
    path: Path, source: Source, data: Labeled, splits: dict, training: Training, say
) -> None:
    if path.exists():
        raise UserError(f'{path} exists: name another file with --config-out, or delete it.')
    lists = path.with_name(f'{path.stem}_lists')
    cfg = classifier_config(source, len(data.classes), splits, lists, training)
    write_train_config(cfg, path, f'Planned by {COMMAND}: {", ".join(data.classes)}')
    say(f'{path}\nStart: python tools/train.py {path}')


def _close(out: Path, data: Labeled, runs: Runs, say: Callable[[str], None]) -> Finetuned:
    """Keep the classifier that was best on its validation images; write table and page."""
    best = max(runs[PRETRAINED], key=lambda run: run.validation)
    paths = {name: out / file for name, file in (
        ('classifier', 'classifier.pth'), ('predictions', 'predictions.csv'),
        ('page', 'page/index.html'),
    )}  # fmt: skip
    shutil.copyfile(best.classifier, paths['classifier'])
    names = [data.classes[i] for i in best.predicted]
    truth = [data.classes[i] for i in best.labels]
    write_predictions(paths['predictions'], data.test.names, names, best.confidence, truth)
    job = Finetuned({'out': out, **paths}, runs)
    lines = [f'{start:12}{_shown(job.accuracy(start))}' for start in runs]
    if job.lead is not None:
        lines.append(f'{"difference":12}{_shown(job.lead, "+")}')
    sentence = verdict(job.lead)
    figures = {start: job.accuracy(start)._asdict() for start in runs}
    if job.lead is not None:
        figures['difference'] = job.lead._asdict()
    (out / 'figures.json').write_text(json.dumps(figures, indent=1) + '\n')
    write_classifier_page(out, data, runs, figures, best, sentence)
    say('top-1 in %, with 95 % confidence intervals over seeds and test images')
    say('\n'.join([*lines, *([sentence] if sentence else [])]))
    say('\n'.join(f'{name:12}{path}' for name, path in paths.items()))
    say(f'Use it: ttl predict IMAGES --weights {paths["classifier"]}')
    return job


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
