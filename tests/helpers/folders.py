"""Labeled folders of small images, made up on the spot."""

import cv2
import numpy as np


def make_folder(root, classes=('ant', 'bee', 'cat'), count=6, size=40, seed=0, widen=1):
    """``root/CLASS/I.png``: noise around a gray level of the class, ``size + widen * I`` wide."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            noise = rng.integers(0, 90, (size, size + widen * i, 3)) + 60 * number
            cv2.imwrite(str(root / name / f'{i}.png'), noise.astype(np.uint8))
    return root
