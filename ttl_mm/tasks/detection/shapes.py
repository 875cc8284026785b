"""Whether the shape of an object can be drawn.

pycocotools is C code that believes what it is given: polygons far outside of the image, and run
lengths of another size, end its process or show memory that nobody has written.
"""

from typing import Any

import numpy as np


def shape_fault(shape: Any, width: int, height: int) -> str:
    """Why a shape cannot be drawn in an image of this size; '' if it can.

    Args:
        shape: Polygons ``[[x, y, x, y, ...], ...]`` or COCO's run lengths, ``{'size', 'counts'}``.
        width: Of the image.
        height: Of the image.

    >>> shape_fault([[0, 0, 4, 0, 4, 4]], 8, 8), shape_fault([[0, 0, 1e9, 0, 4, 4]], 8, 8)
    ('', 'a corner at 1e+09, far outside of the image')
    """
    if isinstance(shape, list):
        faults = (_polygon_fault(polygon, width, height) for polygon in shape)
        return next(filter(None, faults), '') if shape else 'no polygon'
    if not isinstance(shape, dict):
        return f'neither polygons nor run lengths: {str(shape)[:40]}'
    size, counts = shape.get('size'), shape.get('counts')
    if size != [height, width]:
        return f'run lengths of size {str(size)[:40]} in an image of [{height}, {width}]'
    if isinstance(counts, str):
        counts = _unpacked(counts)
    if not isinstance(counts, list) or not all(type(c) is int and c >= 0 for c in counts):
        return f'run lengths that are no numbers: {str(counts)[:40]}'
    if sum(counts) != width * height:
        return f'run lengths of {sum(counts)} pixels in all, the image has {width * height}'
    return ''


def _polygon_fault(polygon: Any, width: int, height: int) -> str:
    if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
        return f'a polygon without three corners: {str(polygon)[:40]}'
    if not all(type(value) in (int, float) for value in polygon):
        return f'a polygon that is no numbers: {str(polygon)[:40]}'
    corners = np.array(polygon, float).reshape(-1, 2)
    size = np.array([width, height])
    far = ~((corners >= -size) & (corners <= 2 * size))  # and NaN is
    return f'a corner at {corners[far][0]:.4g}, far outside of the image' if far.any() else ''


def _unpacked(text: str) -> list[int] | None:
    """COCO's run lengths from their text: five bits a character, differences to the last but one.

    >>> _unpacked('013000')
    [0, 1, 3, 1, 3, 1]
    """
    counts: list[int] = []
    value = bits = 0
    for character in text:
        five = ord(character) - 48
        if not 0 <= five < 64 or bits > 30:
            return None
        value |= (five & 31) << bits
        bits += 5
        if five & 32:
            continue
        if five & 16:
            value -= 1 << bits
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = bits = 0
    return None if bits else counts
