"""Labels of images that lie in archives."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import NO_LABEL, archive_index
from ttl_mm.files.archives.member import split_path


def inner_names(root: str | os.PathLike, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The archive and the name in it of every image; both empty for a file of its own."""
    archive = ''
    for name in names:
        path = os.path.join(root, name)
        if archive and path.startswith(archive + '/'):
            yield archive, path[len(archive) + 1 :]
        else:
            archive, inner = split_path(path)
            yield archive, inner


def labels_in_archives(root: str | os.PathLike, names: Sequence[str]) -> np.ndarray | None:
    """(N,) int32, the labels that archives hold beside their images; None if they hold none.

    Raises:
        UserError: Some images have a label and others have none.
    """
    labels = np.full(len(names), NO_LABEL, np.int32)
    current, known = '', {}
    for i, (archive, inner) in enumerate(inner_names(root, names)):
        if archive and archive != current:
            index = archive_index(archive, listed=True)
            current, known = archive, dict(zip(NameList(index.names), index.labels.tolist()))
        labels[i] = known.get(inner, NO_LABEL) if archive else NO_LABEL
    missing = np.flatnonzero(labels == NO_LABEL)
    if len(missing) == len(labels):
        return None
    if len(missing):
        name = names[int(missing[0])]
        raise UserError(
            f'{len(missing)} of {len(labels)} images have no label, such as {name}: add a .cls '
            'file for each to the archives.'
        )
    return labels
