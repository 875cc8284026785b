"""Write images into tar shards of WebDataset's layout, the same bytes every time."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.files.archives import listing
from ttl_mm.files.archives.index import archive_index, find_place
from ttl_mm.files.archives.member import image_file_size, read_image_file, read_member
from ttl_mm.files.archives.write_tar import HEADERS, write_tar

MAX_IMAGE = 2**32  # bytes


class ShardFile(NamedTuple):
    """An image that goes into a shard."""

    path: str  # where it is read
    name: str  # in the shard
    size: int
    label: int | None


def shard_files(
    root: Path, names: Sequence[str], labels: np.ndarray | None = None
) -> Iterator[ShardFile]:
    """What the images are called in a shard.

    A sample is what has the same name up to the first dot, so further dots become underscores.

    Raises:
        UserError: Two images would get the same name.
    """
    taken: dict[str, str] = {}
    for i, name in enumerate(names):
        folder, slash, file = name.rpartition('/')
        stem, _, ending = file.rpartition('.')
        key = folder + slash + stem.replace('.', '_')
        if key in taken:
            raise UserError(
                f'{taken[key]} and {name} would be one sample of a shard: rename one of them.'
            )
        taken[key] = name
        path = os.path.join(root, name)
        label = None if labels is None else int(labels[i])
        yield ShardFile(path, f'{key}.{ending}', image_file_size(path), label)


def split_into_shards(files: Iterator[ShardFile], size: int) -> Iterator[list[ShardFile]]:
    """Consecutive files, as many as fit into ``size`` bytes; one at least."""
    shard: list[ShardFile] = []
    left = size
    for file in files:
        needed = file.size + HEADERS * (1 if file.label is None else 2)
        if shard and needed > left:
            yield shard
            shard, left = [], size
        shard.append(file)
        left -= needed
    if shard:
        yield shard


def write_shard(path: Path, files: list[ShardFile]) -> bool:
    """Write a shard and read it back, unless it is there with these files; whether it was written.

    Beside it goes the list of its names.

    Raises:
        UserError: Another archive lies there, or what was written cannot be read back.
    """
    if path.exists():
        index = archive_index(path)
        places = index.places
        sizes = [find_place(places, name).size for name in NameList(index.names)]
        if list(zip(NameList(index.names), sizes)) != [(f.name, f.size) for f in files]:
            raise UserError(f'{path} holds other images: name another folder with --out.')
        _write_listing(path)
        return False
    write_tar(path, _contents(files))
    for file in files:
        if read_member(str(path), file.name, MAX_IMAGE) != read_image_file(file.path, MAX_IMAGE):
            path.unlink()
            raise UserError(f'{file.path} differs from its copy in {path}: check the disk.')
    _write_listing(path)
    return True


def _write_listing(path: Path) -> None:
    index = archive_index(path)
    names = NameList(index.names)
    text = listing.listing_text(index.size, names, index.labels.tolist())
    target = path.with_name(path.name + listing.ENDING)
    partial = target.with_name(f'.{target.name}.{uuid4().hex}.partial')
    try:
        partial.write_bytes(os.fsencode(text))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _contents(files: list[ShardFile]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        content = read_image_file(file.path, MAX_IMAGE)
        if len(content) != file.size:
            raise UserError(f'{file.path} has changed while it was read: start again.')
        yield file.name, content
        if file.label is not None:
            yield f'{file.name.rpartition(".")[0]}.cls', str(file.label).encode()
