"""The page of ``ttl finetune``: accuracy, curves, confusions and the surest mistakes."""

from pathlib import Path

import numpy as np

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import Tile, fit
from ttl_mm.evaluation.pictures import confusion_figure
from ttl_mm.explore.comparison import Interval
from ttl_mm.finetuning.pages import Curve, pictures_section, training_section, write_job_page
from ttl_mm.report import Picture, Section, Table
from ttl_mm.report.html import shown
from ttl_mm.tasks.classification.labels import Labeled
from ttl_mm.tasks.classification.train import ClassifierTask, Tested

MISTAKES, COLUMNS, HEIGHT = 15, 5, 120  # pictures, of which so many in a row, and their pixels
CURVE = Curve(
    'validation', 'accuracy/top1', 'validation top-1 in %',
    'Accuracy on the validation images; a curve ends where training was stopped early.',
)  # fmt: skip


def write_classifier_page(
    out: Path, data: Labeled, runs: dict[str, list[Tested]], figures: dict[str, Interval],
    best: Tested, lead: str,
) -> Path:  # fmt: skip
    """Write ``page/index.html`` into ``out``.

    Args:
        out: Folder of the job.
        data: Its images.
        runs: By their start, one for every seed.
        figures: Mean and ends of the interval, by start, and of their difference.
        best: The run whose classifier is kept.
        lead: The sentence below the title.
    """
    all_runs = [tested.run for found in runs.values() for tested in found]
    sections = [
        _accuracy(runs, figures, data), training_section(all_runs, [CURVE]),
        _confusion(best, data), _mistakes(best, data),
    ]  # fmt: skip
    title = f'A classifier for {len(data.classes)} classes'
    return write_job_page(out, ClassifierTask.command, title, lead, sections)


def _accuracy(
    runs: dict[str, list[Tested]], figures: dict[str, Interval], data: Labeled
) -> Section:
    rows = []
    for name, found in figures.items():
        values = [f'{100 * run.correct.mean():.1f}' for run in runs.get(name, ())]
        interval = f'{found.low:.1f} to {found.high:.1f}'
        rows.append([name, f'{found.mean:.1f}', interval, ', '.join(values)])
    text = (
        f'On {len(data.test):,} test images ({data.how}), which neither trained a classifier nor '
        'chose its epoch. The epoch was chosen on validation images held out of the others. '
        'Intervals are those of 95 % over seeds and test images.'
    )
    return Section('Accuracy', text, [Table(['top-1 in %', 'mean', 'interval', 'seeds'], rows)])


def _confusion(best: Tested, data: Labeled) -> Section:
    classes = [shown(name) for name in data.classes]
    figure = confusion_figure(best.labels, best.predicted, classes, 'the classifier that is kept')
    pairs = np.zeros((len(classes),) * 2, int)
    np.add.at(pairs, (best.labels, best.predicted), 1)
    np.fill_diagonal(pairs, 0)
    order = np.argsort(-pairs, axis=None, kind='stable')[:10]
    most = [np.unravel_index(i, pairs.shape) for i in order if pairs.flat[i]]
    rows = [[classes[true], classes[found], str(pairs[true, found])] for true, found in most]
    table = Table(['true class', 'taken for', 'images'], rows, text_columns=2)
    caption = 'Rows are the true classes; a number is a count of test images.'
    return Section(
        'Confusions', tables=[table] if rows else [],
        pictures=[Picture('confusion', figure, caption, wide=True)],
    )  # fmt: skip


def _mistakes(best: Tested, data: Labeled) -> Section:
    wrong = np.flatnonzero(~best.correct)
    wrong = wrong[np.argsort(-best.confidence[wrong], kind='stable')][:MISTAKES]
    tiles = []
    for i in wrong:
        image = decode_image(str(data.test.root / data.test.names[i]))[..., ::-1]  # to RGB
        true, found = (shown(data.classes[k[i]]) for k in (best.labels, best.predicted))
        caption = f'{true}: {found} {best.confidence[i]:.0%}'
        tiles.append(Tile(fit(image, HEIGHT, 2 * HEIGHT), caption))
    rows = [tiles[i : i + COLUMNS] for i in range(0, len(tiles), COLUMNS)]
    caption = 'Test images: true class, then what the classifier says and how sure it is.'
    return pictures_section('Surest mistakes', rows, caption)
