"""Find what is wrong with re-identification data before hours of training or extraction."""

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ttl_mm.datasets.data_report import DataReport
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.retrieval import JUNK
from ttl_mm.tasks.reid.datasets import ReIDLayout, find_layout
from ttl_mm.tasks.reid.names import DISTRACTORS, ParsedNames, parse_names, train_identities


def check_reid(root: str | os.PathLike, files: int | None = 10_000) -> DataReport:
    """Check the training list, query and gallery of a dataset, see :func:`find_layout`.

    Args:
        root: Folder of the dataset.
        files: How many of the listed training images to look for on disk, drawn at random with a
            fixed seed; None for all of them, 0 for none.
    """
    layout, report = find_layout(root), DataReport()
    query = _check_side(report, layout.test / layout.query)
    gallery = _check_side(report, layout.test / layout.gallery)
    if query and gallery:
        _check_matches(report, query, gallery)
    test = {int(i) for side in (query, gallery) if side for i in side.ids}
    _check_train(report, layout, files, test)
    return report


def _check_side(report: DataReport, folder: Path) -> ParsedNames | None:
    try:
        names = scan_folder(folder)
    except UserError as error:
        report.counts[folder.name] = 'images: 0'
        report.errors['empty folder'].append(str(error))
        return None
    side = parse_names(names)
    for lack, bad in side.faults.items():
        report.errors[f'file name with {lack}'] += [f'{folder.name}/{name}' for name in bad]
    for name in side.names:
        if os.path.getsize(folder / name) == 0:
            report.errors['empty file'].append(f'{folder.name}/{name}')
    people = set(side.ids.tolist()) - {JUNK, *DISTRACTORS}
    distractors, junk = np.isin(side.ids, DISTRACTORS).sum(), (side.ids == JUNK).sum()
    report.counts[folder.name] = (
        f'images: {len(names):,}, identities: {len(people):,}, cameras: '
        f'{len(np.unique(side.cams))}, distractors: {distractors:,}, junk: {junk:,}'
    )
    return side


def _check_matches(report: DataReport, query: ParsedNames, gallery: ParsedNames) -> None:
    cameras = defaultdict(set)
    for identity, camera in zip(gallery.ids.tolist(), gallery.cams.tolist()):
        cameras[identity].add(camera)
    found = 0
    in_gallery = {name.rpartition('/')[2] for name in gallery.names}
    for name, identity, camera in zip(query.names, query.ids.tolist(), query.cams.tolist()):
        if identity in (JUNK, *DISTRACTORS):
            report.errors['query that shows no known person'].append(name)
        elif not cameras[identity] - {camera}:
            report.notes['query without a match from another camera (skipped)'].append(name)
        else:
            found += 1
        if name.rpartition('/')[2] in in_gallery:
            report.notes['query image that is also in the gallery (junk there)'].append(name)
    if not found:
        count = counted(len(gallery.names), 'image')
        report.errors['gallery without a match for any query'].append(count)


def _check_train(
    report: DataReport, layout: ReIDLayout, files: int | None, test: Iterable[int]
) -> None:
    if layout.train is None:
        report.counts['train'] = 'no training images'
        return
    with os.scandir(layout.train) as entries:
        folders = [entry.name for entry in entries if entry.is_dir()]
    if folders and layout.train_list is None:  # the bags; to list their files would take long
        identities = train_identities(f'{folder}/' for folder in folders)
        count = f'folders: {len(folders):,} below {layout.train}, without a list'
    else:
        names = NameList(layout.train_list) if layout.train_list else scan_folder(layout.train)
        identities = train_identities(names)
        count = f'images: {len(names):,} below {layout.train}'
    report.counts['train'] = f'{count}, identities or bags: {len(identities):,}'
    for identity in sorted(identities & set(test)):
        report.errors['identity in both training and test images'].append(str(identity))
    if layout.train_list and files != 0:
        _check_files(report, layout.train, names, len(names) if files is None else files)


def _check_files(report: DataReport, root: Path, names: Sequence[str], files: int) -> None:
    """Look for some of the names in a folder."""
    chosen: Sequence[int] = range(len(names))
    if files < len(names):
        chosen = random.Random(0).sample(chosen, files)
    missing = [name for name in map(names.__getitem__, chosen) if not (root / name).exists()]
    report.counts['train'] += f', missing: {len(missing):,} of {len(chosen):,} looked for'
    if missing:
        report.errors[f'training image missing in {root}'] += missing
