"""Features of images without labels: extracted, written for other tools, and read again."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.dataset import Compose
from mmengine.dist import barrier
from torch.utils.data import Dataset

from ttl_mm.datasets.decode import BadImageError, open_image
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.evaluation.feature_file import NO_IMAGE, NO_LABEL, is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.evaluation.run import join_group
from ttl_mm.explore.tables import REMEDY, TABLES, read_table, write_table
from ttl_mm.files.archives.member import image_file_size
from ttl_mm.files.regular import is_regular
from ttl_mm.planning.image_sources import FoundImages


@dataclass(frozen=True)
class Embedding:
    """Features (N, D) of images, with their paths below ``root``.

    ``labels`` (N,) are numbers of ``classes``, or None. ``broken`` are images that cannot be read;
    they are not among the N.
    """

    features: np.ndarray
    paths: list[str]
    root: Path
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def files(self) -> list[str]:
        """The paths with their root."""
        return [str(self.root / path) for path in self.paths]

    def rows(self, chosen: Sequence[int] | np.ndarray) -> 'Embedding':
        """A part of the images."""
        chosen = np.asarray(chosen, dtype=int)
        return replace(
            self,
            features=self.features[chosen],
            paths=[self.paths[i] for i in chosen],
            labels=None if self.labels is None else self.labels[chosen],
        )


class AnyImages(Dataset):
    """Images for extraction; one that cannot be read becomes black and is marked ``NO_IMAGE``."""

    def __init__(self, found: FoundImages, size: int, bands: dict | None = None) -> None:
        self.data_root = str(found.root)
        self.names = list(found.names())
        self.channels = len(bands['low']) if bands else 3
        self.pipeline = Compose(evaluation_pipeline(size, bands))
        self.metainfo: dict[str, Any] = {'classes': ()}

    def __len__(self) -> int:
        return len(self.names)

    def get_data_info(self, index: int) -> dict:
        path = os.path.join(self.data_root, self.names[index])
        return {'img_path': path, 'sample_idx': index, 'gt_label': NO_LABEL}

    def __getitem__(self, index: int) -> dict:
        info = self.get_data_info(index)
        try:
            return self.pipeline(dict(info))
        except BadImageError:
            black = np.zeros((8, 8, self.channels), np.uint8)
            return self.pipeline({**info, 'img': black, 'gt_label': NO_IMAGE})


def embed_images(
    found: FoundImages, weights: str, cache: Path, config: str | None = None,
    size: int | None = None, batch_size: int = 128, num_workers: int = 0,
    device: str | None = None, progress=lambda done, total: None, replace: bool = True,
) -> Embedding:  # fmt: skip
    """Features of the images of a folder or list, by the backbone of a checkpoint.

    They are kept in the feature file ``cache``. Started again, it goes on where it was stopped;
    with several processes (torchrun) each takes its share. ``replace`` tells whether a file that
    is there may be replaced if it holds something else.
    """
    join_group()
    backbone, preprocessor, about = load_model(weights, config, device)
    size = size or default_size(backbone, about.get('trained_size'))
    dataset = AnyImages(found, size, about.get('bands'))
    extract_features(
        backbone, preprocessor, dataset, cache, about,
        batch_size=batch_size, num_workers=num_workers, progress=progress, replace=replace,
    )  # fmt: skip
    embedding = read_embedding(cache, found.root)
    barrier()  # everybody has opened the file, which the first process may now delete
    return embedding


def is_embedding(path: str | Path) -> bool:
    """Whether this is a file of features, by its ending or its content, not one of weights."""
    return Path(path).suffix in TABLES or is_feature_file(path)


def read_embedding(path: str | Path, root: str | Path = '') -> Embedding:
    """A feature file of ours, or a table (.npy with its list, .csv, .parquet) as we write them."""
    path = Path(path)
    if is_feature_file(path):
        return _from_feature_file(path, Path(root))
    if not is_regular(path):
        raise UserError(f'{path} is no file of embeddings: {REMEDY}.')
    features, paths = read_table(path)
    return Embedding(features, paths, Path(root))


def _from_feature_file(path: Path, root: Path) -> Embedding:
    found = read_features(path)
    broken = found.labels == NO_IMAGE
    known = len(found.classes) > 0
    embedding = Embedding(
        found.features, found.paths, root,
        found.labels if known else None, tuple(found.classes),
        tuple(p for p, bad in zip(found.paths, broken) if bad),
    )  # fmt: skip
    return embedding.rows(np.flatnonzero(~broken)) if broken.any() else embedding


def write_embedding(embedding: Embedding, path: str | Path, points: np.ndarray) -> None:
    """Write a table; a row has path, sizes, place on the map (N, 2) and features."""
    sizes = np.array([_sizes(file) for file in embedding.files()], dtype=int).reshape(-1, 3)
    write_table(Path(path), embedding.paths, sizes, points, embedding.features)


def _sizes(file: str) -> tuple[int, int, int]:
    """Bytes of an image file, and its width and height in pixels."""
    image = open_image(file)
    return image_file_size(file), image.width, image.height


def require_images(embedding: Embedding) -> None:
    """Refuse an embedding whose images are not where its paths say.

    Raises:
        UserError: The first one is not there.
    """
    for file in embedding.files()[:1]:
        try:
            image_file_size(file)
        except OSError:
            raise UserError(
                f'{file} does not exist: name the folder of the images with --data.'
            ) from None
