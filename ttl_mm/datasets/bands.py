"""Images beyond 8-bit RGB: any number of channels of any depth, from file to float.

The range of values of a set of images is measured once (:func:`measure`). It becomes 0 to 255, as
float, so that the operations of the views mean the same as for 8 bit, and no depth is lost. What
lies beyond the range stays beyond it. Three channels are kept as BGR, any others as in the file.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np

from ttl_mm.datasets.decode import BadImageError, decode_image, read_file
from ttl_mm.errors import UserError, counted
from ttl_mm.files.dicom import is_dicom, read_dicom
from ttl_mm.files.image_header import MAX_PIXELS, check_image, check_size
from ttl_mm.files.pixel_kind import PixelKind, channels_first, is_npy, pixel_kind
from ttl_mm.files.plain_npy import parse_npy
from ttl_mm.files.tiff import is_tiff, read_tiff, tiff_pages

MAX_CHANNELS = 512
BYTES_PER_PIXEL = 16  # on average over an image of max_pixels
PIXELS = 2**14  # looked at in an image
ENDS = (0.01, 99.99)  # percentiles that become 0 and 255: single hot pixels set no range


@dataclass(frozen=True)
class Bands:
    """The values of every channel that become 0 and 255; for three channels blue, green, red.

    Args:
        low: (C,) values that become 0.
        high: (C,) values that become 255.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        low, high = (tuple(float(value) for value in end) for end in (self.low, self.high))
        object.__setattr__(self, 'low', low)
        object.__setattr__(self, 'high', high)
        if not low or len(low) != len(high) or len(low) > MAX_CHANNELS:
            raise UserError(
                f'bands with {len(low)} low and {len(high)} high values: give one of each for '
                f'every channel, of which there are 1 to {MAX_CHANNELS}.'
            )
        if not all(a < b and np.isfinite([a, b]).all() for a, b in zip(low, high)):
            raise UserError(f'bands from {low} to {high}: low must be below high everywhere.')

    @classmethod
    def of(cls, given: 'Bands | Mapping[str, Any] | None') -> 'Bands | None':
        """From a config."""
        return cls(**given) if isinstance(given, Mapping) else given

    @property
    def channels(self) -> int:
        """How many channels an image has."""
        return len(self.low)

    def config(self) -> dict[str, tuple[float, ...]]:
        """For a config."""
        return asdict(self)

    def scaled(self, image: np.ndarray) -> np.ndarray:
        """(H, W, C) of any type as float32, 0 to 255 in the range; NaN and infinity become 0."""
        low, high = np.array(self.low), np.array(self.high)
        values = image.astype(np.float32 if image.dtype.itemsize <= 4 else np.float64)
        scaled = ((values - low) * (255 / (high - low))).astype(np.float32)
        if image.dtype.kind == 'f':
            scaled[~np.isfinite(scaled)] = 0
        return scaled

    def read(self, path: str | os.PathLike, max_pixels: int = MAX_PIXELS) -> np.ndarray:
        """The image of a file, (H, W, C) as stored.

        Raises:
            BadImageError: Not readable, not an image, or with another number of channels.
        """
        image = read_bands(path, max_pixels)
        if image.shape[2] == 3 and self.channels == 1 and image.dtype == np.uint8:
            image = image[:, :, :1]  # 8-bit gray, which decode_image repeats
        if image.shape[2] != self.channels:
            raise BadImageError(
                os.fspath(path), f'{image.shape[2]} channels, {self.channels} are expected'
            )
        return image


def read_bands(path: str | os.PathLike, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The image of a file with all of its channels at full depth, (H, W, C).

    Raises:
        BadImageError: Not readable, or not an image.
    """
    path = os.fspath(path)
    data = read_file(path, max_pixels)
    try:
        kind = pixel_kind(data)
        if kind.plain:
            return decode_image(data, max_pixels)
        if kind.channels > MAX_CHANNELS:
            raise ValueError(f'{kind.channels} channels, {MAX_CHANNELS} are allowed')
        image = _read(data, max_pixels)
    except BadImageError as error:
        raise BadImageError(path, error.reason) from None
    except ValueError as error:
        raise BadImageError(path, str(error)) from None
    return image


def _read(data: bytes, max_pixels: int) -> np.ndarray:
    if is_npy(data):
        array = parse_npy(data)
        image = array[:, :, None] if array.ndim == 2 else array
        image = image.transpose(1, 2, 0) if channels_first(image.shape) else image
        check_size(image.shape[0], image.shape[1], max_pixels)
    elif is_dicom(data):
        image = read_dicom(data, max_pixels)
    elif is_tiff(data):
        pages = tiff_pages(data)
        check_size(pages[0].height, pages[0].width, max_pixels)
        image = read_tiff(data, pages, BYTES_PER_PIXEL * max_pixels)
    else:
        return _read_png(data, max_pixels)
    image = image[:, :, ::-1] if image.shape[2] == 3 else image
    return np.ascontiguousarray(image, image.dtype.newbyteorder('='))


def _read_png(data: bytes, max_pixels: int) -> np.ndarray:
    """16 bit; alpha is left out."""
    check_image(data, max_pixels)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise ValueError('broken or unsupported PNG')
    image = image[:, :, None] if image.ndim == 2 else image[:, :, :3]
    if pixel_kind(data).channels == 1:
        image = image[:, :, :1]
    return np.ascontiguousarray(image)


@dataclass(frozen=True)
class Measured:
    """What a sample of images has shown.

    ``mean`` and ``std`` are of the scaled values, 0 to 255, in the order in which a network gets
    the channels: red, green, blue where there are three.
    """

    images: int
    dtype: str
    bands: Bands
    mean: tuple[float, ...]
    std: tuple[float, ...]
    cautions: tuple[str, ...]

    def __str__(self) -> str:
        low, high = min(self.bands.low), max(self.bands.high)
        channels = counted(self.bands.channels, 'channel')
        return f'{channels} of {self.dtype}, values {low:.6g} to {high:.6g}'


def measure(paths: Iterable[str | os.PathLike]) -> Measured:
    """Range, mean and deviation of every channel, over some pixels of every image.

    Three channels share one range, so that colors stay what they are.

    Raises:
        UserError: The images have different numbers of channels or different depths, or none
            can be read.
    """
    pixels: list[np.ndarray] = []
    first: tuple[str, int, np.dtype] | None = None
    for path in paths:
        try:
            image = read_bands(path)
        except BadImageError:
            continue  # whoever looks at the files counts them
        found = (os.fspath(path), image.shape[2], image.dtype)
        first = first or found
        if found[1:] != first[1:]:
            raise UserError(
                f'{first[0]} has {first[1]} channels of {first[2]}, {found[0]} has {found[1]} of '
                f'{found[2]}: train on images of one kind, in folders of their own.'
            )
        rows = image.reshape(-1, image.shape[2])
        pixels.append(rows[:: max(1, len(rows) // PIXELS)].astype(np.float64))
    if first is None:
        raise UserError('none of the images that were tried can be read: check their format.')
    return _summary(np.concatenate(pixels), first[2], len(pixels))


def _summary(values: np.ndarray, dtype: np.dtype, images: int) -> Measured:
    """``values`` are (N, C)."""
    cautions = []
    broken = ~np.isfinite(values)
    if broken.any():
        cautions.append(
            f'{broken.mean():.2%} of the values are NaN, infinite or marked as without data; they '
            'are taken for the lowest value.'
        )
    values = np.where(broken, np.nan, values)
    # NaN alone would be refused below with numbers that nobody understands
    values = np.where(broken.all(axis=0), 0, values)
    low, high = np.nanpercentile(values, ENDS, axis=0)
    if len(low) == 3:
        low[:], high[:] = low.min(), high.max()
    for channel in np.flatnonzero(high <= low):
        cautions.append(
            f'channel {channel + 1} of {len(low)} is {low[channel]:g} in every image that was '
            f'looked at ({images}): it tells nothing.'
        )
        high[channel] = low[channel] + 1
    bands = Bands(tuple(np.round(low, 6)), tuple(np.round(high, 6)))
    scaled = bands.scaled(np.nan_to_num(np.where(broken, low, values))[None])[0].astype(np.float64)
    mean, std = scaled.mean(axis=0), scaled.std(axis=0)
    std[std < 1e-3] = 1.0  # of a constant channel
    if len(mean) == 3:
        mean, std = mean[::-1], std[::-1]
    mean, std = (tuple(np.round(row, 4).tolist()) for row in (mean, std))
    return Measured(images, str(dtype), bands, mean, std, tuple(cautions))


def picture(image: np.ndarray, bands: Bands | None = None) -> np.ndarray:
    """An image of any channels for people to look at, uint8 BGR.

    One channel is gray and three are colors; of any others, every channel is a gray picture, side
    by side.

    Args:
        image: (H, W, C) as stored, or scaled already.
        bands: The range to show; None for an image that is scaled.
    """
    scaled = image if bands is None else bands.scaled(image)
    levels = scaled.clip(0, 255).round().astype(np.uint8)
    if levels.shape[2] == 3:
        return np.ascontiguousarray(levels)
    gray = np.concatenate(list(levels.transpose(2, 0, 1)), axis=1)
    return cv2.cvtColor(np.ascontiguousarray(gray), cv2.COLOR_GRAY2BGR)


def decode_to_look_at(path: str | os.PathLike) -> np.ndarray:
    """Any image as uint8 BGR; beyond 8-bit RGB in its own range, see :func:`picture`.

    Raises:
        BadImageError: Not readable, or not an image.
    """
    if kind_of(path).plain:
        return decode_image(path)
    image = read_bands(path)
    values = image.reshape(-1, image.shape[2]).astype(np.float64)
    return picture(image, _summary(values, image.dtype, 1).bands)


def kind_of(path: str | os.PathLike) -> PixelKind:
    """The kind of an image by its header; BadImageError if it has none."""
    try:
        return pixel_kind(read_file(os.fspath(path), MAX_PIXELS))
    except ValueError as error:
        raise BadImageError(os.fspath(path), str(error)) from None
