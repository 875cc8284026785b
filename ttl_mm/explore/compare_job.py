"""What ``ttl compare`` does: every contestant is judged, and a page says who is better."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.data import open_splits
from ttl_mm.explore.comparison import (
    PROTOCOLS,
    Interval,
    accuracy,
    answer,
    lead,
    outcome,
    verdict,
)
from ttl_mm.explore.contestants import Contestant, contestants
from ttl_mm.explore.duplicates import exact_copies
from ttl_mm.files.stores.listing import local_root
from ttl_mm.files.stores.url import is_url
from ttl_mm.planning.image_sources import FoundImages, ImageSource, find_images
from ttl_mm.report import canvas, load_run
from ttl_mm.report.axes import duration
from ttl_mm.report.chart import as_label
from ttl_mm.report.dumped_config import lookup
from ttl_mm.report.page import Picture, Section, Table, write_page

Correct = dict[str, dict[str, np.ndarray]]  # of each protocol and contestant, (seeds, Q)
Accuracies = dict[str, dict[str, Interval]]  # by each protocol, of each contestant
Leads = dict[str, dict[str, Interval]]  # over each other contestant, by each protocol


def compare(
    sources: Sequence[str], data: str, out: Path, protocols: Sequence[str], seeds: int,
    seen: FoundImages | None, epochs: int, options: dict[str, Any],
) -> Iterator[str]:  # fmt: skip
    """Judge all contestants on one labeled set; yield lines to print, the answer first.

    Args:
        sources: what :func:`ttl_mm.explore.contestants.contestants` takes.
        data: what :func:`ttl_mm.evaluation.data.open_splits` takes.
        out: folder for features, ``comparison.json`` and the page.
        protocols: of :data:`ttl_mm.explore.comparison.PROTOCOLS`.
        seeds: draws of training images, and untrained networks.
        seen: the images of pre-training, to see whether test images are among them; by default
            those that the runs beside the checkpoints name.
        epochs: of fine-tuning.
        options: of :func:`ttl_mm.evaluation.run.extract_splits`.
    """
    field = contestants(sources, data, out, options)
    correct: Correct = {
        protocol: {one.name: one.classify_test_images(protocol, seeds, epochs) for one in field}
        for protocol in protocols
    }
    first, *others = (one.name for one in field)
    leads: Leads = {
        other: {p: lead(found[first], found[other]) for p, found in correct.items()}
        for other in others
    }
    sentences = [verdict(first, other, found) for other, found in leads.items()]
    if len(others) > 1:
        outcomes = {other: outcome(found) for other, found in leads.items()}
        sentences.insert(0, answer(first, outcomes))
    yield from sentences
    leaks = leak_sentences(data, seen, field)
    yield from leaks
    costs = {one.name: training_cost(one) for one in field}
    accuracies: Accuracies = {
        protocol: {name: accuracy(values) for name, values in found.items()}
        for protocol, found in correct.items()
    }
    _write_json(accuracies, leads, sentences, leaks, costs, out)
    sections = [
        _accuracy_section(accuracies, costs, seeds, epochs),
        _difference_section(first, leads),
        Section('Leaks', leaks),
    ]
    title, text = f'Was {first} worth it?', ' '.join(sentences)
    page = write_page(title, text, sections, out, command='ttl compare')
    yield str(page.resolve())


def leak_sentences(data: str, seen: FoundImages | None, field: Sequence[Contestant]) -> list[str]:
    """For each set of images of a pre-training, how many test images are among them."""
    sets = {'the images of --seen': seen} if seen else seen_in_runs(field)
    if not sets:
        return ['Whether test images were pre-trained on was not checked: name them with --seen.']
    test: Any = open_splits(data, 224)[0]['test']
    files = [test.get_data_info(i).get('img_path') for i in range(len(test))]
    if None in files:
        return [f'Whether test images were pre-trained on was not checked: {data} has no files.']
    return [_leaks(files, found, what) for what, found in sets.items()]


def _place(root: str) -> Path:
    return local_root(root) if is_url(root) else Path(root)


def seen_in_runs(field: Sequence[Contestant]) -> dict[str, FoundImages]:
    """The images that the log beside a checkpoint says it was trained on, where they are there."""
    sets = {}
    for one in field:
        try:
            config = load_run(Path(one.file).parent).config
            root, names = (
                lookup(config, 'train_dataloader', 'dataset', key)
                for key in ('data_root', 'list_file')
            )
            if isinstance(root, str) and not one.is_random:
                listed = isinstance(names, str)
                found = (
                    FoundImages([ImageSource(_place(root), NameList(names))])
                    if listed
                    else find_images([root])
                )
                sets[f'the images of {one.name}'] = found
        except UserError:  # no log, or no such folder any more
            continue
    return sets


def _leaks(files: Sequence[str], seen: FoundImages, what: str) -> str:
    groups = exact_copies([*files, *(str(seen.root / name) for name in seen.names())])
    leaked = {i for g in groups if g[-1] >= len(files) for i in g if i < len(files)}
    if not leaked:
        return (
            f'None of the {len(files):,} test images is among {what} ({len(seen):,}, compared byte '
            'by byte; `ttl duplicates --against` finds altered copies too).'
        )
    return (
        f'{len(leaked)} of the {len(files):,} test images are among {what}, such as '
        f'{files[min(leaked)]}: the comparison favors who has seen them.'
    )


def training_cost(one: Contestant) -> str:
    """Hours of all devices, where the log of the run lies beside the checkpoint."""
    if one.is_random:
        return 'none'
    try:
        run = load_run(Path(one.file).parent)
        return duration(run.cost(run.last_iteration), run.unit)
    except UserError:
        return 'unknown: no log beside the file'


def _accuracy_section(
    accuracies: Accuracies, costs: dict[str, str], seeds: int, epochs: int
) -> Section:
    text = (
        f'Top-1 accuracy in percent: means over {counted(seeds, "draw")} of training images, with '
        '95 % confidence intervals over draws and test images. All contestants have the same '
        'draws, images and classifiers.'
    )
    if 'finetune' in accuracies:
        length = counted(epochs, 'epoch')
        text += f' Fine-tuning trains all weights for {length}, with the same settings.'
    rows = []
    for name, cost in costs.items():
        values = [found[name] for found in accuracies.values()]
        cells = [f'{value.mean:.1f} ({value.low:.1f} to {value.high:.1f})' for value in values]
        rows.append([name, *cells, cost])
    titles = [PROTOCOLS[protocol].title for protocol in accuracies]
    table = Table(['contestant', *titles, 'training cost'], rows)
    picture = Picture('accuracy', _drawn(accuracies), 'Accuracy with its confidence interval.')
    return Section('Accuracy and cost', text, tables=[table], pictures=[picture])


def _drawn(accuracies: Accuracies):
    with canvas() as (figure, axes):
        for place, found in enumerate(accuracies.values()):
            for shift, (name, value) in enumerate(found.items()):
                x = place + (shift - (len(found) - 1) / 2) * 0.15
                error = [[value.mean - value.low], [value.high - value.mean]]
                axes.errorbar(x, value.mean, yerr=error, fmt='o', color=f'C{shift}', capsize=3,
                              label=as_label(name) if not place else None)  # fmt: skip
        titles = [PROTOCOLS[protocol].title for protocol in accuracies]
        axes.set_xticks(range(len(titles)), titles)
        axes.set_ylabel('top-1 in %')
        axes.legend()
    return figure


def _difference_section(first: str, leads: Leads) -> Section:
    text = (
        f'Points of accuracy by which {first} is ahead of the others, image by image on the same '
        'draws, with 95 % confidence intervals. An interval that holds zero shows no difference.'
    )
    titles = [PROTOCOLS[protocol].title for protocol in next(iter(leads.values()))]
    rows = [
        [other, *(f'{v.mean:+.1f} ({v.low:+.1f} to {v.high:+.1f})' for v in found.values())]
        for other, found in leads.items()
    ]
    return Section('Differences', text, tables=[Table(['ahead of', *titles], rows)])


def _write_json(
    accuracies: Accuracies, leads: Leads, sentences: list[str], leaks: list[str], costs, out: Path
) -> None:
    content = {
        'answer': sentences,
        'leaks': leaks,
        'cost': costs,
        'accuracy': {
            protocol: {name: value._asdict() for name, value in found.items()}
            for protocol, found in accuracies.items()
        },
        'ahead': {
            other: {protocol: value._asdict() for protocol, value in found.items()}
            for other, found in leads.items()
        },
    }
    (out / 'comparison.json').write_text(json.dumps(content, indent=1) + '\n')
