"""A small YOLO dataset: the rectangles of detection_data, in text files beside the images."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from tests.helpers.detection_data import SIDE, draw


def write_yolo(root: Path, counts: dict[str, int], classes: Sequence[str]) -> Path:
    """``images/SPLIT``, ``labels/SPLIT`` and ``data.yaml`` below ``root``."""
    rng = np.random.default_rng(2)
    for split, count in counts.items():
        images, labels = (root / part / split for part in ('images', 'labels'))
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for number in range(count):
            image, objects = draw(rng, len(classes))
            cv2.imwrite(str(images / f'{number:03}.jpg'), image)
            lines = []
            for label, (x1, y1, x2, y2) in objects:
                box = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
                lines.append(' '.join([str(label), *(f'{value / SIDE:.6f}' for value in box)]))
            (labels / f'{number:03}.txt').write_text('\n'.join(lines) + '\n')
    names = ', '.join(repr(name) for name in classes)
    (root / 'data.yaml').write_text(f'nc: {len(classes)}\nnames: [{names}]\n')
    return root
