"""The images that a user names: folders, archives, lists of files, or several of them."""

import os
import stat
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ttl_mm.datasets.bands import Bands, Measured, kind_of, measure
from ttl_mm.datasets.decode import BadImageError, open_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.name_list import NameList
from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import is_archive
from ttl_mm.files.image_header import EXTENSIONS
from ttl_mm.files.stores.cache import is_remote
from ttl_mm.files.stores.listing import local_root
from ttl_mm.files.stores.url import is_url

_MAYBE_DEEP = ('.tif', '.tiff', '.png', '.npy', '.dcm', '.dicom')
TRIED = 400  # files are opened before a run
SECONDS = 20.0  # for that at most
PLACES = 4  # in the list of images of a store, from which some in a row are opened
MEASURED = 64  # images beyond 8-bit RGB whose values are measured


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
    measured: Measured | None = None  # if they are beyond 8-bit RGB
    left_out: tuple[str, ...] = ()  # sentences on channels and depth that no network will see

    @property
    def bad_share(self) -> float:
        """The share of the files looked at that cannot be used."""
        return len(self.bad) / self.tried


def find_images(paths: Sequence[str | Path]) -> FoundImages:
    """Look into every folder and list.

    Raises:
        UserError: A path is missing, unreadable, a single image, or leads to no image.
    """
    return FoundImages([_find_source(path) for path in paths])


def _find_source(source: str | Path) -> ImageSource:
    if isinstance(source, str) and is_url(source):
        names = scan_folder(source)
        return ImageSource(local_root(source), names)
    return _find(Path(source))


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
    deadline = time.monotonic() + seconds
    paths = spread(found, tried)
    measured, left_out = look_at_pixels(paths)
    bad, sides, opened = [], [], 0
    for path in paths:
        opened += 1
        try:
            sides.append(_short_side(path, measured.bands if measured else None))
        except BadImageError as fault:
            bad.append(fault)
        if time.monotonic() > deadline:
            break
    if len(bad) >= opened / 2:
        raise UserError(
            f'{len(bad)} of {opened} images that were tried cannot be read, such as {bad[0]}: name '
            'a folder of images, or check the paths in the list.'
        )
    return Sample(opened, bad, int(statistics.median(sides)), measured, left_out)


def spread(found: FoundImages, number: int) -> list[Path]:
    """Evenly spaced images, in an order that comes from all over the list from the start.

    Of images in a store they come from few places, since archives are fetched whole.
    """
    positions = sorted({i * len(found) // number for i in range(number)})
    if any(is_remote(source.root) for source in found.sources):
        each, length = -(-number // PLACES), len(found)
        starts = [i * length // PLACES for i in range(PLACES)]
        positions = sorted({min(s + i, length - 1) for s in starts for i in range(each)})
    return [path for i in range(8) for path in found.paths(positions[i::8])]


def look_at_some(found: FoundImages) -> tuple[Measured | None, tuple[str, ...]]:
    """:func:`look_at_pixels` of some of the images, spread over all."""
    return look_at_pixels(spread(found, TRIED))


def _short_side(path: Path, bands: Bands | None) -> int:
    """Pixels of an image that could be decoded."""
    if bands is not None:
        return min(bands.read(path).shape[:2])
    file = open_image(path)
    file.decode(max(file.divisors))
    return min(file.height, file.width)


def look_at_pixels(paths: Sequence[Path]) -> tuple[Measured | None, tuple[str, ...]]:
    """What the pixels of the images are: the measured range if half of them or more are beyond
    8-bit RGB, and sentences on what is left out.

    Raises:
        UserError: They are of different kinds.
    """
    kinds = {}
    for path in paths:
        if path.suffix.lower() in _MAYBE_DEEP:
            with suppress(BadImageError):
                kinds[path] = kind_of(path)
    deep = [path for path, kind in kinds.items() if not kind.plain]
    alpha = [path for path, kind in kinds.items() if kind.alpha]
    sentences = []
    if alpha:
        sentences.append(
            f'{len(alpha)} of {len(paths)} images that were looked at have an alpha channel, such '
            f'as {alpha[0]}: it is left out, the colors stay as stored.'
        )
    if 2 * len(deep) >= len(paths):
        return measure(deep[:: max(1, len(deep) // MEASURED)]), tuple(sentences)
    if deep:
        kind = kinds[deep[0]]
        sentences.append(
            f'{len(deep)} of {len(paths)} images that were looked at are beyond 8-bit RGB, such '
            f'as {deep[0]} with {kind.channels} channels of {kind.dtype}. The others are not, so '
            'these are read as 8-bit RGB, or replaced where that is not possible. To use all that '
            'is in them, train on them alone.'
        )
    return None, tuple(sentences)
