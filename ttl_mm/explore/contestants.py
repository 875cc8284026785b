"""Who takes part in a comparison: checkpoints, untrained networks, features of another tool."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.feature_file import Features, read_features
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.evaluation.run import extract_splits
from ttl_mm.explore.comparison import FROZEN, correct_images, draw_rows
from ttl_mm.explore.embedding import is_embedding
from ttl_mm.explore.finetune import finetune_classify
from ttl_mm.explore.tables import TABLES, read_table
from ttl_mm.report.logs import distinct_names

RANDOM = 'random'  # the word for an untrained network like that of the first checkpoint
_NETWORK = re.compile(r'(.+)@((?:timm|torchvision|mmpretrain)/[\w.+-]+)')


def split_source(source: str) -> tuple[str, str | None]:
    """A file, and the network that ``FILE@timm/NAME`` says it is of."""
    found = _NETWORK.fullmatch(source)
    return (found[1], found[2]) if found else (source, None)


@dataclass(frozen=True)
class Contestant:
    """A checkpoint, an untrained network like one, or a table of features.

    ``options`` are those of :func:`ttl_mm.evaluation.run.extract_splits`; ``folder`` keeps what
    was extracted.
    """

    name: str
    file: str
    data: str
    folder: Path
    options: dict[str, Any]
    network: str | None = None
    is_random: bool = False

    @property
    def is_table(self) -> bool:
        """Whether the file holds features instead of weights."""
        return Path(self.file).suffix in TABLES

    def classify_test_images(self, protocol: str, seeds: int, epochs: int) -> np.ndarray:
        """(seeds, Q): whether the classifier of each draw labels each test image correctly."""
        if protocol not in FROZEN:
            return np.stack([self._finetune(seed, epochs) for seed in range(seeds)])
        splits = [self._features(seed) for seed in range(seeds if self.is_random else 1)]
        return np.stack(
            [correct_images(*splits[seed % len(splits)], protocol, seed) for seed in range(seeds)]
        )

    def _features(self, seed: int) -> tuple[Features, Features]:
        """Of the images to train and to test on; an untrained network has others for each seed."""
        if self.is_table:
            train, test = features_of_table(self.file, self.data)
            return train, test
        folder = self.folder / str(seed) if self.is_random else self.folder
        how: dict[str, Any] = {
            'backbone': self.network,
            'untrained': seed if self.is_random else None,
        }
        paths = extract_splits(self.file, self.data, folder, **self.options, **how)
        train, test = (read_features(path) for path in paths)
        return train, test

    def _finetune(self, seed: int, epochs: int) -> np.ndarray:
        if self.is_table:
            raise UserError(f'{self.file} has features and no network: it cannot be fine-tuned.')
        config, device, size = (self.options.get(key) for key in ('config', 'device', 'size'))
        untrained = seed if self.is_random else None
        backbone, preprocessor, about = load_model(
            self.file, config, device, self.network, untrained
        )
        size = size or default_size(backbone, about.get('trained_size'))
        train, test = _splits(self.data, size)
        rows = draw_rows(np.asarray(train.get_gt_labels()), seed)
        workers = self.options.get('workers', 0)
        found = finetune_classify(backbone, preprocessor, train, rows, test, epochs, seed, workers)
        return found == np.asarray(test.get_gt_labels())


def contestants(
    sources: Sequence[str], data: str, out: Path, options: dict[str, Any]
) -> list[Contestant]:
    """Those that the words of the command line name, in their order.

    A config is that of the first checkpoint; the others are known by their shapes, by what they
    say themselves, or by ``@NETWORK``.
    """
    files = [split_source(source) for source in sources if source != RANDOM]
    first = next((file for file in files if not is_embedding(file[0])), None)
    if len(sources) < 2 or not files:
        raise UserError(f'nothing to compare in {list(sources)}: name a checkpoint and another.')
    if RANDOM in sources and first is None:
        raise UserError('random is a network like the first checkpoint: name one.')
    found = []
    for number, (source, name) in enumerate(zip(sources, contestant_names(sources))):
        is_random = source == RANDOM
        file, network = first if is_random and first else split_source(source)
        own = options if (file, network) == first else {**options, 'config': None}
        folder = out / 'features' / str(number)
        found.append(Contestant(name, file, data, folder, own, network, is_random))
    return found


def contestant_names(sources: Sequence[str]) -> list[str]:
    """Short names that differ, also of a file that is named twice."""
    files = list(dict.fromkeys(s for s in sources if s != RANDOM))
    short = distinct_names([Path(split_source(s)[0].replace('://', '/')) for s in files])
    known = {RANDOM: RANDOM, **dict(zip(files, short))}
    names: list[str] = []
    for source in sources:
        name, number = known[source], 1
        while name in names or (name == RANDOM and source != RANDOM):
            number += 1
            name = f'{known[source]} ({number})'
        names.append(name)
    return names


def _splits(data: str, size: int) -> list[Any]:
    """The labeled datasets to train and to test on."""
    return list(open_splits(data, size)[0].values())


def features_of_table(path: str, data: str) -> list[Features]:
    """The features of the images to train and to test on, from a table that has their paths.

    Paths are whole, or relative to ``data``.
    """
    rows, paths = read_table(Path(path))
    home = os.path.realpath(data if os.path.isdir(data) else os.path.dirname(data))
    place = {os.path.realpath(os.path.join(home, name)): i for i, name in enumerate(paths)}
    found = []
    for split in _splits(data, 224):
        files = [split.get_data_info(i).get('img_path', '') for i in range(len(split))]
        at = [place.get(os.path.realpath(file), -1) for file in files]
        if -1 in at:
            raise UserError(
                f'{path} has no features of {files[at.index(-1)]}: its column path must have every '
                f'image of {data}, whole or relative to it.'
            )
        labels = np.asarray(split.get_gt_labels())
        found.append(Features(rows[at], labels, files, list(split.metainfo['classes']), {}))
    return found
