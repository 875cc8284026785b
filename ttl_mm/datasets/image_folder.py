"""A dataset of all images below a folder; it needs no annotation file."""

import os
from collections.abc import Sequence

import numpy as np
from mmengine.dataset import Compose
from torch.utils.data import Dataset

from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS


@DATASETS.register_module()
class ImageFolder(Dataset):
    """All images below a folder, in any depth of sub-folders and of mixed formats.

    The pipeline gets ``img_path``, ``sample_idx`` and, if asked for, ``gt_label``.

    A file that is no usable image raises :class:`BadImageError` with its path. Training replaces
    the image (:mod:`ttl_mm.datasets.train_samples`), an evaluation ends with the error.

    Args:
        data_root: The folder.
        pipeline: Transforms.
        list_file: A text file with one path per line, relative to ``data_root``, instead of a scan.
        with_label: Whether the first-level sub-folders are classes, numbered in sorted order.
    """

    def __init__(
        self,
        data_root: str,
        pipeline: Sequence = (),
        list_file: str | None = None,
        with_label: bool = False,
    ) -> None:
        self.data_root = data_root
        self.pipeline = Compose(pipeline)
        self.names = NameList(list_file) if list_file else scan_folder(data_root)
        self.metainfo: dict = {}
        self.labels: np.ndarray | None = None
        if with_label:
            self.metainfo['classes'], self.labels = classes_of(self.names)

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
        except BadImageError:
            raise
        except Exception as error:
            if fault := image_fault(info['img_path']):
                raise fault from error
            raise


def classes_of(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The first-level folders of ``names`` in order, and the class number of every name."""
    numbers: dict[str, int] = {}
    labels = np.empty(len(names), np.int32)
    for i, name in enumerate(names):
        folder, slash, _ = name.partition('/')
        if not slash:
            raise UserError(f'{name} lies in no sub-folder, so it has no class: move it into one.')
        labels[i] = numbers.setdefault(folder, len(numbers))
    order = sorted(numbers)
    renumber = np.empty(len(order), np.int32)
    renumber[[numbers[folder] for folder in order]] = np.arange(len(order))
    return tuple(order), renumber[labels]


def image_fault(path: str) -> BadImageError | None:
    """Why the file is not a usable image; None if it is one."""
    try:
        decode_image(path)
    except BadImageError as fault:
        return fault
    return None
