"""The images that a user names: folders, archives, lists of files, or several of them."""

import os
import stat
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ttl_mm.datasets.decode import BadImageError, open_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import is_archive
from ttl_mm.files.image_header import EXTENSIONS

TRIED = 400  # files are opened before a run
SECONDS = 20.0  # for that at most


class ImageSource(NamedTuple):
    """A folder, and the names of images relative to it."""

    root: Path
    names: NameList


@dataclass(frozen=True)
class FoundImages:
    """All images of a run."""

    sources: list[ImageSource]

    def __len__(self) -> int:
        return sum(len(source.names) for source in self.sources)

    @property
    def root(self) -> Path:
        """The folder that all images lie in."""
        return Path(os.path.commonpath([source.root for source in self.sources]))

    def names(self) -> Iterator[str]:
        """Every image, relative to :attr:`root`."""
        for source in self.sources:
            inner = os.path.relpath(source.root, self.root)
            for name in source.names:
                yield name if inner == '.' else os.path.join(inner, name)

    def paths(self, positions: Sequence[int]) -> Iterator[Path]:
        """The files at some positions, which ascend."""
        start, waiting = 0, list(positions)
        for source in self.sources:
            here = [i - start for i in waiting if i - start < len(source.names)]
            waiting = waiting[len(here) :]
            yield from (source.root / source.names[i] for i in here)
            start += len(source.names)


class Sample(NamedTuple):
    """What opening some of the images has shown."""

    tried: int
    bad: list[BadImageError]
    short_side: int  # median, in pixels

    @property
    def bad_share(self) -> float:
        return len(self.bad) / self.tried


def find_images(paths: Sequence[str | Path]) -> FoundImages:
    """Look into every folder and list.

    Raises:
        UserError: A path is missing, unreadable, a single image, or leads to no image.
    """
    return FoundImages([_find(Path(path)) for path in paths])


def _find(path: Path) -> ImageSource:
    try:
        kind = path.stat()
        if os.path.isdir(path) or (os.path.isfile(path) and is_archive(path)):
            return ImageSource(path.resolve(), scan_folder(path))
    except FileNotFoundError:
        raise UserError(f'{path} does not exist: name a folder of images.') from None
    except PermissionError as error:
        raise UserError(
            f'{error.filename} may not be read by you: change its rights with chmod, or name '
            'another folder.'
        ) from None
    if path.suffix.lower() in EXTENSIONS:
        raise UserError(f'{path} is a single image: name its folder, {path.resolve().parent}.')
    if not stat.S_ISREG(kind.st_mode):
        raise UserError(f'{path} is no regular file: name a folder, or a list of images.')
    if not kind.st_size:
        raise UserError(f'{path} is an empty file: name a folder, or a list of images.')
    return ImageSource(path.resolve().parent, NameList(path))


def try_images(found: FoundImages, tried: int = TRIED, seconds: float = SECONDS) -> Sample:
    """Decode images that are evenly spread over all; fewer where that takes too long.

    Raises:
        UserError: Half of them or more cannot be read.
    """
    total, deadline = len(found), time.monotonic() + seconds
    positions = sorted({i * total // tried for i in range(tried)})
    # from all over the list, wherever time runs out
    rounds = [positions[i::8] for i in range(8)]
    bad, sides, opened = [], [], 0
    for path in (path for some in rounds for path in found.paths(some)):
        opened += 1
        try:
            file = open_image(path)
            file.decode(max(file.divisors))
            sides.append(min(file.height, file.width))
        except BadImageError as fault:
            bad.append(fault)
        if time.monotonic() > deadline:
            break
    if len(bad) >= opened / 2:
        raise UserError(
            f'{len(bad)} of {opened} images that were tried cannot be read, such as {bad[0]}: name '
            'a folder of images, or check the paths in the list.'
        )
    return Sample(opened, bad, int(statistics.median(sides)))
