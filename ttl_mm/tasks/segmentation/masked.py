"""Images with a mask each, of VOC style or of ADE style, read where they lie."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from ttl_mm.datasets.data_report import DataReport, require_usable
from ttl_mm.datasets.decode import BadImageError, open_image
from ttl_mm.errors import UserError
from ttl_mm.files.image_header import EXTENSIONS, open_with_pillow
from ttl_mm.files.regular import NAMES, TEXT, read_bytes, read_text
from ttl_mm.finetuning.hold_out import HOW, hold_out

VAL_WORDS = ('val', 'valid', 'validation', 'test', 'testing')
TRAIN_WORDS = ('train', 'training')
IGNORED = 255
VOC = (
    'background', 'aeroplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair',
    'cow', 'diningtable', 'dog', 'horse', 'motorbike', 'person', 'pottedplant', 'sheep', 'sofa',
    'train', 'tvmonitor',
)  # fmt: skip
LAYOUTS = (
    'a VOC folder (JPEGImages and SegmentationClass), or a folder with images and annotations (or '
    'masks, labels), split below into train and val'
)


class Masked(NamedTuple):
    """An image file and the file of its mask."""

    path: Path
    mask: Path


@dataclass
class Masks:
    """A dataset: images to train on and to validate on, and the names of the classes."""

    train: list[Masked]
    val: list[Masked]
    classes: tuple[str, ...]
    zero_is_none: bool  # ADE style: pixels of value 0 belong to no class, and class 1 has number 0
    how: str  # the validation images were chosen
    report: DataReport = field(default_factory=DataReport)

    def split(self, name: str) -> list[Masked]:
        return {'train': self.train, 'val': self.val}[name]


def read_mask(path: str | os.PathLike, zero_is_none: bool = False) -> np.ndarray:
    """(H, W) uint8 of class numbers, 255 where a pixel has no class.

    Raises:
        UserError: The file is no image with one value a pixel.
    """
    try:
        image = open_with_pillow(read_bytes(path, 2**28))
        values = np.asarray(image)
    except Exception as error:  # Pillow's plugins raise what they like
        raise UserError(f'{path} is no mask ({error}): masks are PNG files.') from error
    if values.ndim != 2 or values.dtype != np.uint8:
        raise UserError(
            f'{path} has shape {values.shape} of {values.dtype}: a mask has one number of a class, '
            '0 to 255, for every pixel.'
        )
    return values - np.uint8(1) if zero_is_none else values  # 0 becomes 255


def read_masks(data: str | Path, say: Callable[[str], None] = print, look: bool = True) -> Masks:
    """Find and check a dataset; every problem is named before the first step.

    Args:
        data: :data:`LAYOUTS`.
        say: Receives the report.
        look: Whether to open every mask.

    Raises:
        UserError: The layout is not known, or the data cannot be used.
    """
    root = Path(data)
    voc = next((p for p in (root, *_folders(root)) if (p / 'SegmentationClass').is_dir()), None)
    found = _read_voc(voc) if voc is not None else _read_pairs(root)
    if look:
        _check(found)
    say(str(found.report))
    require_usable([found.report], str(data))
    return found


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.glob('*') if path.is_dir())


def _read_voc(folder: Path) -> Masks:
    lists = folder / 'ImageSets' / 'Segmentation'
    named = {
        split: read_text(path, NAMES).split()
        for split in ('train', 'val')
        if (path := lists / f'{split}.txt').is_file()
    }
    if not named:
        named = {'train': sorted(p.stem for p in (folder / 'SegmentationClass').glob('*.png'))}
    pairs = {
        split: [
            Masked(folder / 'JPEGImages' / f'{n}.jpg', folder / 'SegmentationClass' / f'{n}.png')
            for n in names
        ]
        for split, names in named.items()
    }
    classes = _names(folder) if (folder / 'classes.txt').is_file() else VOC
    return _split(pairs, classes, False, 'lists in ImageSets/Segmentation')


def _read_pairs(root: Path) -> Masks:
    pairs: dict[str, list[Masked]] = {}
    masks = next(
        (root / n for n in ('annotations', 'masks', 'labels') if (root / n).is_dir()), None
    )
    if not (root / 'images').is_dir() or masks is None:
        raise UserError(f'{root} is no dataset of masks that is known here: name {LAYOUTS}.')
    for split, words in (('train', TRAIN_WORDS), ('val', VAL_WORDS)):
        for word in words:
            if (root / 'images' / word).is_dir() and split not in pairs:
                pairs[split] = _match(root / 'images' / word, masks / word)
    if 'train' not in pairs:
        pairs = {'train': _match(root / 'images', masks)}
    ade = masks.name == 'annotations'
    return _split(pairs, _names(root), ade, 'the folder of that name')


def _match(images: Path, masks: Path) -> list[Masked]:
    """Pairs by the names of files; one of the two may be missing, which is found out later."""
    files = {p.stem: p for p in sorted(images.iterdir()) if p.suffix.lower() in EXTENSIONS}
    found = {p.stem: p for p in sorted(masks.glob('*.png'))}
    return [
        Masked(files.get(stem, images / f'{stem}.jpg'), found.get(stem, masks / f'{stem}.png'))
        for stem in sorted(files.keys() | found.keys())
    ]


def _names(root: Path) -> tuple[str, ...]:
    for name in ('classes.txt', 'objectInfo150.txt'):
        if (path := root / name).is_file():
            lines = [line.strip() for line in read_text(path, TEXT).splitlines() if line.strip()]
            if name.startswith('object'):  # of ADE: a table whose last column has the names
                lines = [line.split('\t')[-1].split(',')[0] for line in lines[1:]]
            if len(lines) > IGNORED:
                raise UserError(
                    f'{path} names {len(lines)} classes, and a mask of 8 bit tells {IGNORED} '
                    'apart: leave classes out.'
                )
            return tuple(lines)
    raise UserError(f'{root} names no classes: put classes.txt there, one name a line.')


def _split(
    pairs: dict[str, list[Masked]], classes: Sequence[str], zero_is_none: bool, how: str
) -> Masks:
    if 'val' in pairs and 'train' in pairs:
        return Masks(pairs['train'], pairs['val'], tuple(classes), zero_is_none, how)
    train, val = hold_out([pair for found in pairs.values() for pair in found])
    return Masks(train, val, tuple(classes), zero_is_none, HOW)


def _check(data: Masks) -> None:
    """Look at every pair of files."""
    report, seen = data.report, {'train': np.zeros(256, int), 'val': np.zeros(256, int)}
    for split in seen:
        for pair in data.split(split):
            name = pair.path.name
            if not pair.path.is_file():
                report.errors['mask without an image'].append(pair.mask.name)
                continue
            if not pair.mask.is_file():
                report.errors['image without a mask'].append(name)
                continue
            try:
                image, mask = open_image(pair.path), read_mask(pair.mask, data.zero_is_none)
            except (UserError, BadImageError) as error:
                report.errors['unreadable file'].append(str(error))
                continue
            if mask.shape != (image.height, image.width):
                sizes = (
                    f'{name} ({image.width} x {image.height}, {mask.shape[1]} x {mask.shape[0]})'
                )
                report.errors['mask of another size than its image'].append(sizes)
            counts = np.bincount(mask.ravel(), minlength=256)
            unnamed = [i for i in np.flatnonzero(counts[:IGNORED]) if i >= len(data.classes)]
            if unnamed:
                where = f'{pair.mask.name} ({unnamed[0]} of {len(data.classes)})'
                report.errors['class that has no name'].append(where)
            seen[split] += counts
        report.counts[split] = f'images: {len(data.split(split)):,}'
    for number, name in enumerate(data.classes):
        if not seen['train'][number]:
            report.notes['class without a pixel to train on'].append(name)
    if not seen['train'][:IGNORED].any():
        report.errors['split without any class'].append('train')


def colored(mask: np.ndarray) -> np.ndarray:
    """A mask (H, W) as an RGB picture: a color for every class, black where there is none."""
    bits = np.arange(256)
    colors = np.zeros((256, 3), np.uint8)
    for place in range(8):  # the palette of VOC
        for channel in range(3):
            colors[:, channel] |= ((bits >> (3 * place + channel) & 1) << (7 - place)).astype(
                np.uint8
            )
    colors[IGNORED] = 0
    return colors[mask]


def write_mask(mask: np.ndarray, path: Path) -> None:
    """Write class numbers as a PNG of one byte a pixel."""
    Image.fromarray(mask.astype(np.uint8)).save(path)
