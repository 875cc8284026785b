"""What a report says about runs: summary, accuracy against cost, training, gauges."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ttl_mm.gauges.verdict import ERROR, HEALTH, MEASURE, verdict
from ttl_mm.report.axes import cost_axes, duration
from ttl_mm.report.chart import as_label, canvas, look_of
from ttl_mm.report.figures import curves
from ttl_mm.report.page import Picture, Section, Table
from ttl_mm.report.run import Run

# logged name: what it is called on the page; all are percentages
ACCURACIES = {
    'probe/knn_top1': 'kNN top-1',
    'probe/linear_top1': 'linear probe top-1',
    'accuracy/top1': 'validation top-1',
}
NOT_MEASURED = 'No accuracy was logged: probes need labels. The other sections do not.'
# logged name, label of the axis, caption
TRAINING = (
    ('loss', 'loss', 'Training loss.'),
    ('lr', 'learning rate', 'Learning rate.'),
    ('momentum', 'momentum', 'Momentum of the target network.'),
    ('images_per_s', 'images per second', 'Speed of all devices together.'),
)
GAUGES = (
    ('gauge/effective_rank', 'effective rank',
     'Dimensions that the projections use. One or two: collapse to a point or to two poles.'),
    ('gauge/std', 'std of unit projections',
     'Spread of the projections. Zero: collapse to a point. Two poles look healthy here.'),
    ('gauge/class_divergence', 'class divergence',
     'Distance between class centers at equal spread within classes. Low: under-clustering.'),
    ('gauge/pr_omega_a', 'Pr(Ω|A)',
     'Share of all batches that push images of one class apart. High: over-clustering.'),
    ('gauge/pr_omega_b', 'Pr(Ω|B)',
     'The same share among the batches that hold two images of one class.'),
)  # fmt: skip
JUDGED = (
    (MEASURE, 'share of neighbors',
     'Neighbors that an image keeps under another view: the measure that follows accuracy best '
     'among runs with the same views. The verdict goes by it.'),
    ('judge/stability', 'share of neighbors',
     'Neighbors kept since the last judgment: how little training still rearranges the images.'),
    ('judge/rankme', 'RankMe', 'Dimensions that the features use. A diagnostic.'),
    ('judge/lidar', 'LiDAR',
     'Dimensions in which images differ more than their views. A diagnostic.'),
    ('judge/spectrum_decay', 'alpha-ReQ', 'Decay of the spectrum. A diagnostic.'),
    ('judge/alignment', 'alignment', 'Distance of two views of an image. A diagnostic.'),
    ('judge/uniformity', 'uniformity', 'Lower: spread more evenly. A diagnostic.'),
)  # fmt: skip


def pretraining_sections(runs: Sequence[Run], target: float | None) -> list[Section]:
    """What runs cost, how accurate they became, how training went, clustering and collapse."""
    accuracies = [accuracy_section(runs, key, target) for key in _measured(runs)]
    return [
        summary_section(runs),
        *(accuracies or [Section('Learning efficiency', NOT_MEASURED)]),
        judged_section(runs),
        Section('Training', pictures=_pictures(runs, TRAINING)),
        Section('Clustering and collapse', pictures=_pictures(runs, GAUGES, from_zero=True)),
    ]


def summary_section(runs: Sequence[Run]) -> Section:
    """Table of all runs, and what went wrong in them."""
    keys = _measured(runs)
    header = ['run', 'state', 'epochs', 'images', 'time', 'cost']
    header += [f'{ACCURACIES[key]}: untrained → last (best, at epoch)' for key in keys]
    rows = []
    for run in runs:
        spent = _spent(run, float(run.last_iteration), of=run.max_epochs)
        rows.append([run.name, run.status, *spent, *(_progress(run, key) for key in keys)])
    warnings = [
        f'{run.name}: the loss was not finite at {len(bad)} logged iterations, first at {bad[0]}.'
        for run in runs
        if (bad := run.non_finite('loss'))
    ]
    warnings += [text for run in runs for key in keys if (text := _no_better(run, key))]
    return Section('Runs', tables=[Table(header, rows)], warnings=warnings)


def judged_section(runs: Sequence[Run]) -> Section:
    """A verdict on every run that was judged without labels, and the curves of all measures."""
    rows = []
    for run in runs:
        _, health = run.series('health')
        kept, errors = (list(run.series(key)[1]) for key in (MEASURE, ERROR))
        word = dict(enumerate(HEALTH)).get(health[-1]) if len(health) else None
        if found := verdict(kept, errors, word):
            rows.append([run.name, *found])
    tables = [Table(['run', 'verdict', 'evidence'], rows, text_columns=3)] if rows else []
    return Section('Judged without labels', tables=tables, pictures=_pictures(runs, JUDGED))


def _measured(runs: Sequence[Run]) -> list[str]:
    """Which kinds of accuracy any run has."""
    return [key for key in ACCURACIES if any(len(run.series(key)[1]) for run in runs)]


def accuracy_section(runs: Sequence[Run], key: str, target: float | None) -> Section:
    """Curves of one kind of accuracy against what it cost, and what a target took."""
    name, stem = ACCURACIES[key], key.replace('/', '_')
    label = f'{name} (%)'
    pictures = [
        Picture(f'{stem}_{axis.name}', figure, f'{name} {axis.caption}.')
        for axis in cost_axes(runs)
        if (figure := curves(runs, key, label, axis, markers=True))
    ]
    goal = target if target is not None else common_goal(runs, key)
    if bars := target_bars(runs, key, goal):
        caption = f'Epochs to the first measurement of at least {goal:g} %.'
        pictures.append(Picture(f'{stem}_target', bars, caption))
    table = time_to_target(runs, key, goal)
    return Section(f'Learning efficiency: {name}', tables=[table], pictures=pictures)


def common_goal(runs: Sequence[Run], key: str) -> float:
    """The highest whole number that every run with this accuracy reached."""
    series = [run.series(key) for run in runs]
    reached = [values[iterations > 0].max() for iterations, values in series if any(iterations)]
    return float(np.floor(min(reached))) if reached else 0.0


def first_reached(run: Run, key: str, goal: float) -> float | None:
    """Iteration of the first measurement of at least ``goal``, of a network that was trained."""
    iterations, values = run.series(key)
    at = np.flatnonzero((values >= goal) & (iterations > 0))
    return iterations[at[0]] if len(at) else None


def time_to_target(runs: Sequence[Run], key: str, goal: float) -> Table:
    """What each run paid for the first measurement of at least ``goal``."""
    rows = []
    for run in runs:
        at = first_reached(run, key, goal)
        missed = 'not reached' if len(run.series(key)[1]) else 'not measured'
        if (before := _untrained(run, key)) is not None and before >= goal:
            at, missed = None, f'untrained at {before:.1f} already'
        rows.append([run.name, *(_spent(run, at) if at is not None else [missed, *'–––'])])
    return Table([f'to {goal:g} % {ACCURACIES[key]}', 'epochs', 'images', 'time', 'cost'], rows)


def target_bars(runs: Sequence[Run], key: str, goal: float) -> Figure | None:
    """Epochs to the target as bars, where at least two runs got there."""
    bars = [
        (index, run.name, run.epochs(at))
        for index, run in enumerate(runs)
        if (at := first_reached(run, key, goal)) is not None
        and run.iterations_per_epoch
        and not (_untrained(run, key) or 0) >= goal
    ]
    if len(bars) < 2:
        return None
    with canvas(height=1.0 + 0.36 * len(bars)) as (figure, axes):
        for row, (index, _, epochs) in enumerate(bars):
            axes.barh(row, epochs, color=look_of(index)['color'], height=0.6)
            axes.annotate(f' {epochs:.4g}', (epochs, row), va='center', fontsize=8.5)
        axes.set_yticks(range(len(bars)), [as_label(name) for _, name, _ in bars])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.grid(axis='y', visible=False)
        axes.set_xlabel(f'epochs to {goal:g} % {ACCURACIES[key]}')
    return figure


def _untrained(run: Run, key: str) -> float | None:
    """Accuracy before the first step, where it was measured."""
    iterations, values = run.series(key)
    return next((float(value) for value in values[iterations == 0]), None)


def _no_better(run: Run, key: str) -> str | None:
    """A warning where the newest network is not above the untrained one."""
    before, (iterations, values) = _untrained(run, key), run.series(key)
    if before is None or not iterations[-1] > 0 or values[-1] > before:
        return None
    return (
        f'{run.name}: {ACCURACIES[key]} is {values[-1]:.1f} %, no better than that of the '
        f'untrained network, {before:.1f} %. Train longer, or look for the cause below.'
    )


def _pictures(
    runs: Sequence[Run], wanted: Sequence[tuple[str, str, str]], from_zero: bool = False
) -> list[Picture]:
    return [
        Picture(key.replace('/', '_'), figure, caption)
        for key, label, caption in wanted
        if (figure := curves(runs, key, label, from_zero=from_zero))
    ]


def _spent(run: Run, iteration: float, of: int | None = None) -> list[str]:
    """Epochs, images, time and cost up to an iteration, for people."""
    epochs, images = run.epochs(iteration), run.images(iteration)
    return [
        ('–' if epochs is None else f'{epochs:.4g}') + (f' of {of}' if of else ''),
        '–' if images is None else f'{images:,.0f}',
        duration(run.hours(iteration)),
        duration(run.cost(iteration), run.unit),
    ]


def _progress(run: Run, key: str) -> str:
    """Accuracy before training where it was measured, at the end, and the best of all with when."""
    iterations, values = run.series(key)
    if not len(values):
        return '–'
    start = _untrained(run, key)
    before = '' if start is None else f'{start:.1f} → '
    last = f'{values[-1]:.1f}' if iterations[-1] > 0 else '–'
    at = iterations[values.argmax()]
    epoch = run.epochs(at)
    when = f'iteration {at:.0f}' if epoch is None else f'{epoch:.4g}'
    return f'{before}{last} ({values.max():.1f}, {when})'
