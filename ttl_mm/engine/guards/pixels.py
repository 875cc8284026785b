"""Depth and channels of the images that a pipeline for 8-bit RGB would lose."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from mmengine.dist import is_main_process

from ttl_mm.datasets.bands import ENDS, Bands, kind_of, read_bands
from ttl_mm.datasets.decode import BadImageError
from ttl_mm.files.pixel_kind import PixelKind

LOOKED_AT = 16  # images
FEW_LEVELS = 32  # of 256: less is nearly constant
REMEDY = (
    '`ttl views --data DIR` prints the bands to set in RandomViews; see "Images beyond 8-bit RGB" '
    'in docs/data.md.'
)


def check_pixels(runner) -> None:
    """Warn where images would come out nearly constant, or lose a channel."""
    dataset = runner.train_loop.dataloader.dataset
    if not is_main_process() or runner.train_loop.names is None:
        return
    info = getattr(dataset, 'get_data_info', None)
    if info is None:
        return
    chosen = np.unique(np.linspace(0, len(dataset) - 1, LOOKED_AT).astype(int)).tolist()
    bands = _bands_of(dataset)
    paths = (path for i in chosen if (path := info(i).get('img_path')))
    for sentence in lost(paths) if bands is None else outside(paths, bands):
        runner.logger.warning(f'{sentence} {REMEDY}')


def lost(paths: Iterable[str]) -> list[str]:
    """One sentence for each kind of loss, with an example and its numbers."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            kind = kind_of(path)
            if not kind.plain:
                name, sentence = _loss(path, kind)
                found.setdefault(name, sentence)
        except BadImageError:
            continue  # another guard counts them
    return [sentence for name, sentence in found.items() if name]


def outside(paths: Iterable[str], bands: Bands) -> list[str]:
    """A sentence with an example, where half of the images or more have few of the levels between
    the ends of the bands.
    """
    looked_at, sentences = 0, []
    for path in paths:
        try:
            image = bands.read(path)
        except BadImageError:
            continue  # another guard counts them
        looked_at += 1
        scaled = bands.scaled(image).reshape(-1, bands.channels)
        spans = np.diff(np.percentile(scaled, ENDS, axis=0), axis=0)[0]
        channel = int(spans.argmin())
        if spans[channel] < FEW_LEVELS:
            values = image[..., channel]
            sentences.append(
                f'{path} has values from {np.nanmin(values):g} to {np.nanmax(values):g} in channel '
                f'{channel + 1} of {bands.channels}, and its bands are {bands.low[channel]:g} to '
                f'{bands.high[channel]:g}: it comes out with {spans[channel]:.1f} of 255 levels, '
                'nearly constant.'
            )
    return sentences[:1] if 2 * len(sentences) >= max(1, looked_at) else []


def _loss(path: str, kind: PixelKind) -> tuple[str, str]:
    """What kind of loss, '' for none, and the sentence."""
    if kind.channels not in (1, 3):
        return 'channels', (
            f'{path} has {kind.channels} channels, and this run sees three at most.'
        )
    values = read_bands(path)
    low, high = float(values.min()), float(values.max())
    if kind.dtype.kind == 'f':
        return 'float', f'{path} has floating-point values ({low:g} to {high:g}): it is not read.'
    levels = int(high) // 256 - int(low) // 256 + 1
    if kind.dtype.itemsize == 2 and levels < FEW_LEVELS:
        return 'levels', (
            f'{path} has values from {low:g} to {high:g} in 16 bit: read as 8 bit, they become '
            f'{levels} of 256 levels, and the image is nearly constant.'
        )
    return '', ''


def _bands_of(dataset: Any) -> Bands | None:
    """By which a transform of the dataset, or of one inside of it, reads all channels."""
    while dataset is not None:
        for transform in getattr(getattr(dataset, 'pipeline', None), 'transforms', ()):
            if isinstance(bands := getattr(transform, 'bands', None), Bands):
                return bands
        dataset = getattr(dataset, 'dataset', None)
    return None
