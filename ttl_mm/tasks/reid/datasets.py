"""Person re-identification data: SYSU-30k, Market-1501 and any folders that are named like them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mmengine.dataset import Compose

from ttl_mm.datasets.data_report import shorten
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS
from ttl_mm.tasks.reid.names import require_names, train_identities


class ReIDLayout(NamedTuple):
    """Where the parts of a dataset are; a training part that does not exist is None."""

    test: Path
    query: str  # folder below `test`
    gallery: str  # folder below `test`
    train: Path | None  # what `train_list` is relative to
    train_list: Path | None


def find_layout(root: str | os.PathLike) -> ReIDLayout:
    """Recognize SYSU-30k (its root or its test folder), Market-1501, or query/ and gallery/."""
    root = Path(root)
    if not root.is_dir():
        raise UserError(f'{root} is not a folder: check the path of the re-identification data.')
    if (root / 'sysu_test_set_all').is_dir():
        lists = [path for path in (root / 'meta/train.txt', root / 'train.txt') if path.is_file()]
        train_list = lists[0] if lists else None
        train = _train_root(root, train_list)
        return ReIDLayout(root / 'sysu_test_set_all', 'query', 'gallery', train, train_list)
    gallery = 'bounding_box_test' if (root / 'bounding_box_test').is_dir() else 'gallery'
    for name in ('query', gallery):
        if not (root / name).is_dir():
            raise UserError(
                f'{root} has no folder {name}: expected sysu_test_set_all (SYSU-30k), query and '
                'bounding_box_test (Market-1501), or query and gallery.'
            )
    train = root / 'bounding_box_train'
    return ReIDLayout(root, 'query', gallery, train if train.is_dir() else None, None)


def _train_root(root: Path, train_list: Path | None) -> Path | None:
    """The folder that the names in the list are relative to: SYSU-30k's images, or its root."""
    folder = root / 'sysu_train_set_all'
    if not folder.is_dir():
        return None
    return root if train_list and NameList(train_list)[0].startswith('sysu_train') else folder


class ReIDTestSet(ImageFolder):
    """Query images, then gallery images, with identity and camera from their names.

    ``metainfo`` has ``ids`` and ``cams`` (N,) of all images, ``num_query``, and the identities as
    ``classes``; ``gt_label`` is an index into these.

    Args:
        data_root: The folder that holds both.
        query: Folder of the queries.
        gallery: Folder of the gallery.
        pipeline: Transforms.
    """

    def __init__(
        self,
        data_root: str,
        query: str = 'query',
        gallery: str = 'gallery',
        pipeline: Sequence = (),
    ) -> None:
        self.data_root, self.pipeline = data_root, Compose(pipeline)
        self.folders = [os.path.join(data_root, folder) for folder in (query, gallery)]
        self.sides = [scan_folder(folder) for folder in self.folders]
        parsed = map(require_names, self.sides, self.folders)
        ids, cams = (np.concatenate(both) for both in zip(*parsed))
        identities, self.labels = np.unique(ids, return_inverse=True)
        classes, num_query = tuple(map(str, identities)), len(self.sides[0])
        self.metainfo = dict(ids=ids, cams=cams, num_query=num_query, classes=classes)

    def __len__(self) -> int:
        return len(self.metainfo['ids'])

    def get_data_info(self, index: int) -> dict:
        """File and identity of an image."""
        side = int(index >= self.metainfo['num_query'])  # queries come first
        name = self.sides[side][index - side * self.metainfo['num_query']]
        path, label = os.path.join(self.folders[side], name), int(self.get_gt_labels()[index])
        return {'img_path': path, 'sample_idx': int(index), 'gt_label': label}


@DATASETS.register_module()
class ReIDTrainSet(ImageFolder):
    """Training images without labels: neither the bags of SYSU-30k nor identities are used.

    Args:
        test_root: The folder of the test set, see :func:`find_layout`. If given, an identity that
            is also in the test set is an error before training starts.
        kwargs: Of :class:`ImageFolder`.
    """

    def __init__(self, *args, test_root: str | None = None, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if test_root is not None:
            layout = find_layout(test_root)
            test = ReIDTestSet(str(layout.test), layout.query, layout.gallery)
            both = sorted(train_identities(self.names) & set(test.metainfo['ids'].tolist()))
            if both:
                raise UserError(
                    f'training and test images share identities, {len(both)} in all '
                    f'({shorten([str(identity) for identity in both])}): the result would be '
                    'meaningless. Remove them from one of the two.'
                )
