"""Transforms that mmselfsup lacks."""

import numpy as np
from mmcv.transforms import BaseTransform
from mmselfsup.datasets.transforms import PackSelfSupInputs

from ttl_mm.errors import UserError
from ttl_mm.registry import TRANSFORMS

SIDE = 3  # cells


@TRANSFORMS.register_module()
class PackSelfSupViews(PackSelfSupInputs):
    """mmselfsup's PackSelfSupInputs for the views of ``ttl_mm.RandomViews``, which are tensors."""

    def transform(self, results: dict) -> dict:
        """Pack everything else; the views stay as they are."""
        views = results.pop(self.key)
        return {'inputs': views, **super().transform(results)}


@TRANSFORMS.register_module()
class PatchesWithLabels(BaseTransform):
    """mmselfsup's RandomPatchWithLabels for images of any size; its jitter is fixed at 21 pixels.

    The image is divided into 3 x 3 cells, and a patch is cut at a random place of each. ``img``
    becomes the center patch and its eight neighbors, column by column; ``patch_label`` numbers the
    neighbors.

    Args:
        jitter: by how many pixels a patch is smaller than its cell; mmselfsup has 21 for images of
            255 pixels.
    """

    def __init__(self, jitter: int = 21) -> None:
        self.jitter = jitter

    def transform(self, results: dict) -> dict:
        """Replace ``img`` by nine patches, add ``patch_label`` (1, 8)."""
        patches = cut_patches(results['img'], self.jitter, results['rng'])
        results['img'] = [patches.pop(len(patches) // 2), *patches]
        results['patch_label'] = np.arange(len(patches))[None]
        return results


def cut_patches(img: np.ndarray, jitter: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Nine patches of equal size, column by column."""
    cell = np.array(img.shape[:2]) // SIDE
    height, width = cell - jitter
    if min(height, width) < 1 or jitter < 0:
        raise UserError(
            f'jitter={jitter} leaves no patch of an image of {img.shape[1]} x {img.shape[0]}: use '
            'from 0 to less than a third of its shorter side.'
        )
    corners = [cell * (row, column) for column in range(SIDE) for row in range(SIDE)]
    starts = [corner + rng.integers(0, jitter, size=2, endpoint=True) for corner in corners]
    return [img[y : y + height, x : x + width] for y, x in starts]
