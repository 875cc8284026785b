"""Small generated datasets of masks: a bright rectangle on noise, one color a class."""

from pathlib import Path

import cv2
import numpy as np

SIDE = 64


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An image, BGR, and its mask: 0 is the ground, 1 and 2 are rectangles, 255 is unknown."""
    image = rng.integers(0, 60, (SIDE, SIDE + 8, 3), dtype=np.uint8)
    mask = np.zeros(image.shape[:2], np.uint8)
    label = int(rng.integers(1, 3))
    x, y = (int(v) for v in rng.integers(4, 24, 2))
    image[y : y + 30, x : x + 34] = [(250, 80, 80), (80, 250, 80)][label - 1]
    mask[y : y + 30, x : x + 34] = label
    mask[:2] = 255
    return image, mask


def write_voc_masks(root: Path, counts: dict[str, int]) -> Path:
    """JPEGImages, SegmentationClass, lists and names of classes."""
    rng = np.random.default_rng(3)
    for part in ('JPEGImages', 'SegmentationClass', 'ImageSets/Segmentation'):
        (root / part).mkdir(parents=True)
    for split, count in counts.items():
        names = [f'{split}{i}' for i in range(count)]
        (root / f'ImageSets/Segmentation/{split}.txt').write_text('\n'.join(names) + '\n')
        for name in names:
            image, mask = draw(rng)
            cv2.imwrite(str(root / f'JPEGImages/{name}.jpg'), image)
            cv2.imwrite(str(root / f'SegmentationClass/{name}.png'), mask)
    (root / 'classes.txt').write_text('ground\nblue\ngreen\n')
    return root


def write_ade_masks(root: Path, counts: dict[str, int]) -> Path:
    """``images/SPLIT`` and ``annotations/SPLIT``, where 0 is no class."""
    rng = np.random.default_rng(4)
    for split, count in counts.items():
        for part in ('images', 'annotations'):
            (root / part / split).mkdir(parents=True)
        for i in range(count):
            image, mask = draw(rng)
            cv2.imwrite(str(root / f'images/{split}/{i}.jpg'), image)
            mask[mask == 255] = 0
            cv2.imwrite(str(root / f'annotations/{split}/{i}.png'), mask)
    (root / 'classes.txt').write_text('blue\ngreen\n')
    return root
