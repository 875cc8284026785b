"""What is wrong with re-identification data, before a day of training or an hour of extraction."""

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.evaluation.retrieval import JUNK
from ttl_mm.tasks.reid.datasets import ReIDLayout, find_layout
from ttl_mm.tasks.reid.names import DISTRACTORS, NameFault, parse_name, train_identities


@dataclass
class ReIDReport:
    """Counts, what must be mended (errors) and what is only worth knowing (notes)."""

    counts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def usable(self) -> bool:
        """Whether a result on this data would mean something."""
        return not self.errors

    def __str__(self) -> str:
        lines = [f'{part}: {count}' for part, count in self.counts.items()]
        for mark, problems in (('ERROR', self.errors), ('note', self.notes)):
            for kind, where in problems.items():
                more = f' and {len(where) - 3:,} more' if len(where) > 3 else ''
                lines.append(f'{mark}: {len(where):,} x {kind}: {", ".join(where[:3])}{more}')
        return '\n'.join(lines)


@dataclass
class _Side:
    """The images of the query or of the gallery whose names can be read."""

    names: list[str]
    ids: np.ndarray
    cams: np.ndarray


def check_reid(root: str | os.PathLike, files: int | None = 10_000) -> ReIDReport:
    """Check the training list, query and gallery of a data set, see :func:`find_layout`.

    Args:
        root: Its folder.
        files: How many of the listed training images to look for on disk, drawn at random with a
            fixed seed; None for all of them, 0 for none.
    """
    layout, report = find_layout(root), ReIDReport()
    query = _check_side(report, layout.test / layout.query)
    gallery = _check_side(report, layout.test / layout.gallery)
    if query and gallery:
        _check_matches(report, query, gallery)
    test = {int(i) for side in (query, gallery) if side for i in side.ids}
    _check_train(report, layout, files, test)
    return report


def _check_side(report: ReIDReport, folder: Path) -> _Side | None:
    try:
        names = scan_folder(folder)
    except UserError as error:
        report.counts[folder.name] = '0 images'
        report.errors['empty folder'].append(str(error))
        return None
    kept, parsed = [], []
    for name in names:
        try:
            parsed.append(parse_name(name))
            kept.append(name)
        except NameFault as fault:
            report.errors[f'file name that {fault}'].append(f'{folder.name}/{name}')
        else:
            if os.path.getsize(folder / name) == 0:
                report.errors['empty file'].append(f'{folder.name}/{name}')
    ids, cams = np.array(parsed, np.int32).reshape(-1, 2).T
    side = _Side(kept, ids, cams)
    people = set(ids.tolist()) - {JUNK, *DISTRACTORS}
    report.counts[folder.name] = (
        f'{len(names):,} images, {len(people):,} identities, {len(set(cams.tolist()))} cameras, '
        f'{np.isin(ids, DISTRACTORS).sum():,} distractors, {(ids == JUNK).sum():,} junk'
    )
    return side


def _check_matches(report: ReIDReport, query: _Side, gallery: _Side) -> None:
    cameras = defaultdict(set)
    for identity, camera in zip(gallery.ids.tolist(), gallery.cams.tolist()):
        cameras[identity].add(camera)
    found = 0
    in_gallery = {name.rpartition('/')[2] for name in gallery.names}
    for name, identity, camera in zip(query.names, query.ids.tolist(), query.cams.tolist()):
        if identity in (JUNK, *DISTRACTORS):
            report.errors['query that is nobody'].append(name)
        elif not cameras[identity] - {camera}:
            report.notes['query without a match from another camera, skipped'].append(name)
        else:
            found += 1
        if name.rpartition('/')[2] in in_gallery:
            report.notes['query image that is in the gallery too, junk there'].append(name)
    if not found:
        report.errors['gallery without a match for any query'].append(
            f'{len(gallery.names):,} images'
        )


def _check_train(
    report: ReIDReport, layout: ReIDLayout, files: int | None, test: Iterable[int]
) -> None:
    if layout.train is None:
        report.counts['train'] = 'no training images'
        return
    with os.scandir(layout.train) as entries:
        folders = [entry.name for entry in entries if entry.is_dir()]
    if layout.train_list is None and folders:  # millions of files: their folders tell enough
        identities = train_identities(f'{folder}/' for folder in folders)
        count = f'{len(folders):,} folders below {layout.train}, no list'
    else:
        names = NameList(layout.train_list) if layout.train_list else scan_folder(layout.train)
        identities = train_identities(names)
        count = f'{len(names):,} images below {layout.train}'
    report.counts['train'] = f'{count}, {len(identities):,} identities or bags'
    for identity in sorted(identities & set(test)):
        report.errors['identity in training and in test images'].append(str(identity))
    if layout.train_list and files != 0:
        _check_files(report, layout, names, files)


def _check_files(
    report: ReIDReport, layout: ReIDLayout, names: Sequence[str], files: int | None
) -> None:
    if files is None or files >= len(names):
        chosen = range(len(names))
    else:
        chosen = random.Random(0).sample(range(len(names)), files)
    absent = [name for name in map(names.__getitem__, chosen) if not (layout.train / name).exists()]
    report.counts['train'] += f', {len(chosen):,} files looked for, {len(absent):,} absent'
    if absent:
        report.errors[f'training image that is not in {layout.train}'] += absent
