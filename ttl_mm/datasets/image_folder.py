"""A dataset of all images below a folder or in archives; it needs no annotation file."""

import os
from collections.abc import Sequence

import numpy as np
from mmengine.dataset import Compose
from torch.utils.data import Dataset

from ttl_mm.datasets.archive_labels import inner_names, labels_in_archives
from ttl_mm.datasets.bands import read_bands
from ttl_mm.datasets.decode import BadImageError
from ttl_mm.datasets.folder_scan import ask_again, scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.files.archives.member import split_path
from ttl_mm.files.stores.listing import local_root
from ttl_mm.files.stores.remote import StoreError
from ttl_mm.files.stores.url import is_url
from ttl_mm.registry import DATASETS

MAX_CLASSES = 2**20  # that labels in archives may stand for


@DATASETS.register_module()
class ImageFolder(Dataset):
    """All images below a folder, in any depth of sub-folders and of mixed formats.

    A folder without image files may hold archives of them instead (tar, zip, parquet).

    The pipeline gets ``img_path``, ``sample_idx`` and, if asked for, ``gt_label``.

    A file that is no usable image raises :class:`BadImageError` with its path. Training replaces
    the image (:mod:`ttl_mm.datasets.train_samples`), an evaluation ends with the error.

    Args:
        data_root: The folder, or an archive; or an address of archives in a store, such as
            ``s3://bucket/shards`` or ``https://host/images-{000000..000099}.tar``.
        pipeline: Transforms.
        list_file: A text file with one path per line, relative to ``data_root`` or whole, instead
            of a scan.
        with_label: Whether the first-level sub-folders are classes, numbered in sorted order; in
            archives, the labels beside the images, or else their first-level folders.
    """

    def __init__(
        self,
        data_root: str,
        pipeline: Sequence = (),
        list_file: str | None = None,
        with_label: bool = False,
    ) -> None:
        if not isinstance(data_root, (str, os.PathLike)) or not (str(data_root) or list_file):
            raise UserError(
                f'data_root={data_root!r}: name the folder of images, in quotes if it is a number.'
            )
        self.data_root = str(local_root(data_root)) if is_url(data_root) else data_root
        self.pipeline = Compose(pipeline)
        self.names = NameList(list_file) if list_file else scan_folder(data_root)
        if list_file and is_url(data_root):
            ask_again(self.data_root, self.names)
        self.metainfo: dict = {}
        self.labels: np.ndarray | None = None
        if with_label:
            self.metainfo['classes'], self.labels = self._classes()

    def _classes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The names of the classes, and the class of every image."""
        archive = split_path(os.path.join(self.data_root, self.names[0]))[0]
        if not archive:
            return classes_of(below(self.data_root, self.names))
        labels = labels_in_archives(self.data_root, self.names)
        if labels is None:
            return classes_of([inner for _, inner in inner_names(self.data_root, self.names)])
        if labels.max() >= MAX_CLASSES:  # their names alone would fill the memory
            raise UserError(
                f'{self.data_root} has the label {labels.max()}: labels are numbers of classes, '
                f'from 0 to {MAX_CLASSES - 1}.'
            )
        return tuple(str(i) for i in range(int(labels.max()) + 1)), labels

    def __len__(self) -> int:
        return len(self.names)

    def get_data_info(self, index: int) -> dict:
        """What is known about an image before its file is opened."""
        path = os.path.join(self.data_root, self.names[index])
        info = {'img_path': path, 'sample_idx': index}
        if self.labels is not None:
            info['gt_label'] = int(self.labels[index])
        return info

    def get_gt_labels(self) -> np.ndarray:
        """The class of every image."""
        if self.labels is None:
            raise UserError('this ImageFolder was built without labels: set with_label=True.')
        return self.labels

    def __getitem__(self, index: int) -> dict:
        info = self.get_data_info(index)
        try:
            return self.pipeline(dict(info))  # a copy: the path is needed below
        except (BadImageError, StoreError):
            raise
        except Exception as error:
            if fault := image_fault(info['img_path']):
                raise fault from error
            raise


@DATASETS.register_module()
class TarShards(ImageFolder):
    """Images in tar shards of WebDataset's layout, or in other archives.

    The same as :class:`ImageFolder` of their folder, and an error where there are none: a config
    says what it reads. Any image is read by itself, so that shuffling is over all shards, and a
    run resumes at the exact image.
    """

    def __init__(
        self,
        data_root: str,
        pipeline: Sequence = (),
        list_file: str | None = None,
        with_label: bool = False,
    ) -> None:
        super().__init__(data_root, pipeline, list_file, with_label)
        if not split_path(os.path.join(self.data_root, self.names[0]))[0]:
            raise UserError(
                f'{data_root} holds image files and no archives of them: use ttl_mm.ImageFolder, '
                'or write shards with `ttl shard`.'
            )


def below(root: str | os.PathLike, names: Sequence[str]) -> list[str]:
    """The names relative to ``root``; a list may also hold whole paths."""
    homes = [os.path.join(folder(root), '') for folder in (os.path.abspath, os.path.realpath)]
    found = []
    for name in names:
        home = next((h for h in homes if name.startswith(h)), '')
        if os.path.isabs(name) and not home:
            raise UserError(f'{name} lies outside {root}, so it has no class: correct the list.')
        found.append(name.removeprefix(home))
    return found


def classes_of(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The first-level folders of ``names`` in order, and the class number of every name."""
    numbers: dict[str, int] = {}
    labels = np.empty(len(names), np.int32)
    for i, name in enumerate(names):
        folder, slash, _ = name.partition('/')
        if not (slash and folder):  # a whole path begins with one
            raise UserError(f'{name} lies in no sub-folder, so it has no class: move it into one.')
        labels[i] = numbers.setdefault(folder, len(numbers))
    order = sorted(numbers)
    renumber = np.empty(len(order), np.int32)
    renumber[[numbers[folder] for folder in order]] = np.arange(len(order))
    return tuple(order), renumber[labels]


def image_fault(path: str) -> BadImageError | None:
    """Why the file is not a usable image; None if it is one."""
    try:
        read_bands(path)
    except BadImageError as fault:
        return fault
    return None
