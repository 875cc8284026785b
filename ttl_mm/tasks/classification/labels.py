"""Labeled folders: which images to train on, to choose the epoch by, and to test on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttl_mm.checkpoint.coverage import some
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.data import check_classes, hold_out, split_folders


@dataclass(frozen=True)
class Split:
    """Images below a folder, with the numbers of their classes (N,)."""

    root: Path
    names: list[str]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, chosen: np.ndarray) -> 'Split':
        """A part, by indices or a mask."""
        chosen = np.arange(len(self))[chosen]
        return Split(self.root, [self.names[i] for i in chosen], self.labels[chosen])


@dataclass(frozen=True)
class Labeled:
    """A labeled dataset: what may be learned from, and what is tested on."""

    classes: tuple[str, ...]
    pool: Split
    test: Split
    how: str  # the test images were chosen


def find_labeled(folder: str | Path) -> Labeled:
    """The images of a folder of classes, or of a folder with ``train`` and ``val`` or ``test``.

    Raises:
        UserError: A class is empty, has too few images, or is in one of the splits only.
    """
    root = Path(folder)
    splits = split_folders(root)
    train, classes = _open(splits.get('train', root))
    if splits:
        test, others = _open(splits['test'])
        check_classes({'train': classes, 'test': others}, str(folder))
        how = f'the folder {splits["test"].name}'
        _require(train, classes, 2, 'one to train on and one to choose the epoch by')
        return Labeled(classes, train, test, how)
    check_classes({'train': classes, 'test': classes}, str(folder))
    _require(train, classes, 3, 'one each to train on, to choose the epoch by and to test on')
    held_out = hold_out(train.names, train.labels, classes)
    how = 'a fifth of every class, chosen by the hash of the names'
    return Labeled(classes, train.rows(~held_out), train.rows(held_out), how)


def _open(folder: Path) -> tuple[Split, tuple[str, ...]]:
    found = ImageFolder(str(folder), with_label=True)
    classes = found.metainfo['classes']
    inside = folder.iterdir() if folder.is_dir() else ()  # an archive has no empty folders
    folders = sorted(path.name for path in inside if path.is_dir() and path.name[0] != '.')
    if empty := [name for name in folders if name not in classes]:
        raise UserError(
            f'{folder} has {counted(len(empty), "class", "classes")} without an image '
            f'({some(empty, 5)}): put images into every folder, or delete the empty ones.'
        )
    return Split(folder.resolve(), list(found.names), found.get_gt_labels()), classes


def _require(split: Split, classes: Sequence[str], count: int, why: str) -> None:
    for name, number in zip(classes, np.bincount(split.labels, minlength=len(classes))):
        if number < count:
            raise UserError(
                f'class {name} has {counted(number, "image")}: at least {count} are needed, {why}.'
            )


def draw(
    data: Labeled, seed: int, fraction: float | None = None, per_class: int | None = None
) -> dict[str, Split]:
    """Images to train on and to validate on: all, or a part that ``seed`` draws class by class.

    A fifth of what is drawn, at least one image of every class, is for validation.

    Raises:
        UserError: A class has fewer images than ``per_class``.
    """
    pool = data.pool
    if fraction is not None or per_class is not None:
        rows = []
        for number, name in enumerate(data.classes):
            members = np.flatnonzero(pool.labels == number)
            count = per_class or max(2, round((fraction or 1) * len(members)))
            if count > len(members):
                raise UserError(
                    f'class {name} has {counted(len(members), "image")} to learn from, and '
                    f'--per-class asks for {count}: ask for fewer.'
                )
            # RandomState and not a Generator: its stream is frozen across NumPy versions
            rows.append(np.random.RandomState((seed, number)).permutation(members)[:count])
        pool = pool.rows(np.sort(np.concatenate(rows)))
    held_out = hold_out(pool.names, pool.labels, data.classes)
    return {'train': pool.rows(~held_out), 'val': pool.rows(held_out)}
