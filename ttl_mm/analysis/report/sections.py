"""What a report says about runs: summary, accuracy, training, clustering, and the paper."""

from collections.abc import Sequence

import numpy as np

from ttl_mm.analysis.report.figures import canvas, curves, look_of
from ttl_mm.analysis.report.page import Picture, Section, Table
from ttl_mm.analysis.report.run import Run

# logged name: what it is called on the page; all are percentages
ACCURACIES = {
    'probe/knn_top1': 'kNN top-1 (%)',
    'probe/linear_top1': 'linear probe top-1 (%)',
    'accuracy/top1': 'top-1 (%)',
}
# accessor of Run: label of the axis, caption
AXES = {
    'epochs': ('epochs', 'against epochs'),
    'images': ('images seen', 'against images seen by all devices'),
    'hours': ('hours of training', 'against training time'),
    'device_hours': ('device hours', 'against cost: hours of training times devices'),
}


def summary_section(runs: Sequence[Run]) -> Section:
    """Table of all runs, and what went wrong in them."""
    keys = [key for key in ACCURACIES if any(len(run.series(key)[1]) for run in runs)]
    header = ['run', 'state', 'epochs', 'images', 'hours', 'device hours']
    header += [f'{kind} {ACCURACIES[key]}' for key in keys for kind in ('last', 'best')]
    rows = []
    for run in runs:
        end = np.array([float(run.last_iteration)])
        epochs, images = run.epochs(end), run.images(end)
        hours, cost = run.hours(end), run.device_hours(end)
        of = f' of {run.max_epochs}' if run.max_epochs else ''
        row = [
            run.name,
            run.status,
            _number(epochs, '.4g') + of,
            _number(images, ',.0f'),
            _number(hours, '.3g'),
            _number(cost, '.3g') + (' GPU' if run.on_gpu else ''),
        ]
        for key in keys:
            values = run.series(key)[1]
            row += [_number(values[-1:], '.1f'), _number(values, '.1f', max)]
        rows.append(row)
    warnings = [
        f'{run.name}: the loss was not finite at {len(bad)} logged iterations, first at {bad[0]}.'
        for run in runs
        if (bad := run.non_finite('loss'))
    ]
    return Section('Runs', tables=[Table(header, rows)], warnings=warnings)


def accuracy_section(runs: Sequence[Run], target: float | None) -> Section:
    """Learning efficiency: accuracy against everything that it costs, and the way to a target."""
    pictures, tables = [], []
    for key, label in ACCURACIES.items():
        reached = [values for run in runs if len(values := run.series(key)[1])]
        if not reached:
            continue
        stem = key.replace('/', '_')
        for axis, (axis_label, caption) in AXES.items():
            figure = curves(runs, key, label, axis, axis_label, markers=True)
            if figure:
                name = label.removesuffix(' (%)')
                pictures.append(Picture(f'{stem}_{axis}', figure, f'{name} {caption}.'))
        goal = target if target is not None else np.floor(min(v.max() for v in reached))
        tables.append(time_to_target(runs, key, goal))
        figure = target_bars(runs, key, goal, label)
        if figure:
            caption = f'Epochs to the first measurement of at least {goal:g} %.'
            pictures.append(Picture(f'{stem}_target', figure, caption))
    if not pictures:
        text = 'No accuracy was logged. A probe needs labels; the other sections do not.'
        return Section('Learning efficiency', text)
    return Section('Learning efficiency', tables=tables, pictures=pictures)


def first_reached(run: Run, key: str, goal: float) -> float | None:
    """Iteration of the first measurement of at least ``goal``."""
    iterations, values = run.series(key)
    at = np.flatnonzero(values >= goal)
    return iterations[at[0]] if len(at) else None


def time_to_target(runs: Sequence[Run], key: str, goal: float) -> Table:
    """What each run paid for the first measurement of at least ``goal``."""
    rows = []
    for run in runs:
        at = first_reached(run, key, goal)
        if at is None:
            rows.append([run.name, 'not reached', '', '', ''])
            continue
        at = np.array([at])
        rows.append(
            [
                run.name,
                _number(run.epochs(at), '.4g'),
                _number(run.images(at), ',.0f'),
                _number(run.hours(at), '.3g'),
                _number(run.device_hours(at), '.3g'),
            ]
        )
    name = ACCURACIES[key].removesuffix(' (%)')
    return Table([f'to {goal:g} % {name}', 'epochs', 'images', 'hours', 'device hours'], rows)


def target_bars(runs: Sequence[Run], key: str, goal: float, label: str):
    """Epochs to the target as bars, where at least two runs got there."""
    reached = [(i, run, first_reached(run, key, goal)) for i, run in enumerate(runs)]
    bars = [
        (i, run, run.epochs(np.array([at]))[0])
        for i, run, at in reached
        if at is not None and run.iterations_per_epoch
    ]
    if len(bars) < 2:
        return None
    with canvas(height=1.0 + 0.36 * len(bars)) as (figure, axes):
        for row, (index, _, epochs) in enumerate(bars):
            axes.barh(row, epochs, color=look_of(index)['color'], height=0.6)
            axes.annotate(
                f' {epochs:.4g}', (epochs, row), va='center', fontsize=8.5, annotation_clip=False
            )
        axes.set_yticks(range(len(bars)), [run.name for _, run, _ in bars])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.grid(axis='y', visible=False)
        axes.set_xlabel(f'epochs to {goal:g} % {label.removesuffix(" (%)")}')
    return figure


def training_section(runs: Sequence[Run]) -> Section:
    """Loss, learning rate, momentum of the target network."""
    wanted = [
        ('loss', 'loss', 'Training loss.'),
        ('lr', 'learning rate', 'Learning rate.'),
        ('momentum', 'momentum', 'Momentum of the target network.'),
    ]
    return Section('Training', pictures=_pictures(runs, wanted))


def gauges_section(runs: Sequence[Run]) -> Section:
    """Clustering and collapse gauges."""
    wanted = [
        (
            'gauge/effective_rank',
            'effective rank',
            'Dimensions that the projections use. One or two: collapse to a point or to two poles.',
        ),
        (
            'gauge/std',
            'std of unit projections',
            'Spread of the projections. Zero: collapse to a point. Two poles look healthy here.',
        ),
        (
            'gauge/class_divergence',
            'class divergence',
            'Distance between class centres at equal spread within. Low: under-clustering.',
        ),
        (
            'gauge/pr_omega_a',
            'Pr(Ω|A)',
            'Share of all batches that push images of one class apart. High: over-clustering.',
        ),
        (
            'gauge/pr_omega_b',
            'Pr(Ω|B)',
            'The same share, of the batches that hold two images of one class.',
        ),
    ]
    return Section('Clustering and collapse', pictures=_pictures(runs, wanted))


def _pictures(runs: Sequence[Run], wanted: Sequence[tuple[str, str, str]]) -> list[Picture]:
    by_epoch = all(run.iterations_per_epoch for run in runs)
    axis = ('epochs', 'epochs') if by_epoch else ('iterations', 'iterations')
    return [
        Picture(key.replace('/', '_'), figure, caption)
        for key, label, caption in wanted
        if (figure := curves(runs, key, label, *axis))
    ]


def _number(values, form: str, reduce=lambda values: values[-1]) -> str:
    return '–' if values is None or len(values) == 0 else format(reduce(values), form)
