"""Small pictures of many images, a few hundred to a file, for pages that load them as needed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np

from ttl_mm.datasets.bands import decode_to_look_at
from ttl_mm.datasets.decode import BadImageError

CELL = 64  # pixels of a thumbnail
ACROSS = 16  # thumbnails in a row of a sheet
PER_SHEET = ACROSS * ACROSS
QUALITY = 80


def thumbnail(path: str) -> np.ndarray:
    """The image, (CELL, CELL, 3) uint8 BGR, whole and centered on gray; gray if it is broken."""
    cell = np.full((CELL, CELL, 3), 128, np.uint8)
    try:
        image = decode_to_look_at(path)
    except BadImageError:
        return cell
    scale = CELL / max(image.shape[:2])
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    top, left = (CELL - height) // 2, (CELL - width) // 2
    cell[top : top + height, left : left + width] = small
    return cell


def write_sheets(
    paths: Sequence[str], folder: Path, make: Callable[[str], np.ndarray] = thumbnail
) -> int:
    """Write ``0.jpg``, ``1.jpg``, ... with the thumbnails in order, row by row; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    sheets = range(0, len(paths), PER_SHEET)
    for number, start in enumerate(sheets):
        cells = [make(path) for path in paths[start : start + PER_SHEET]]
        rows = -(-len(cells) // ACROSS)
        cells += [np.zeros_like(cells[0])] * (rows * ACROSS - len(cells))
        grid = np.concatenate(
            [np.concatenate(cells[r * ACROSS : (r + 1) * ACROSS], axis=1) for r in range(rows)]
        )
        options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
        (folder / f'{number}.jpg').write_bytes(cv2.imencode('.jpg', grid, options)[1].tobytes())
    return len(sheets)
