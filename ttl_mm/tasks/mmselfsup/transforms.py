"""Steps of a pipeline that mmselfsup's own transforms leave open."""

import numpy as np
from mmcv.transforms import BaseTransform
from mmselfsup.datasets.transforms import PackSelfSupInputs

from ttl_mm.errors import UserError
from ttl_mm.registry import TRANSFORMS

SIDE = 3  # cells
CENTRE = SIDE * SIDE // 2


@TRANSFORMS.register_module()
class PackSelfSupViews(PackSelfSupInputs):
    """mmselfsup's PackSelfSupInputs for ``ttl_mm.RandomViews``, whose views are tensors already."""

    def transform(self, results: dict) -> dict:
        """Pack all but the views, which stay as they are."""
        views = results.pop(self.key)
        return {'inputs': views, **super().transform(results)}


@TRANSFORMS.register_module()
class PatchesWithLabels(BaseTransform):
    """What mmselfsup's RandomPatchWithLabels does, whose jitter of 21 pixels needs large images.

    The image is cut into 3 x 3 cells, column by column, and a square is taken at random from each.
    ``img`` becomes the patch in the middle and its eight neighbours, ``patch_label`` their numbers.

    Args:
        jitter: how many pixels a patch is smaller than its cell; 21 at images of 255.
    """

    def __init__(self, jitter: int = 21) -> None:
        self.jitter = jitter

    def transform(self, results: dict) -> dict:
        """Replace ``img`` by nine patches, add ``patch_label`` (1, 8)."""
        patches = cut_patches(results['img'], self.jitter, results['rng'])
        results['img'] = [patches.pop(CENTRE), *patches]
        results['patch_label'] = np.arange(len(patches))[None]
        return results


def cut_patches(img: np.ndarray, jitter: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Nine patches of equal size, column by column."""
    height, width = (length // SIDE - jitter for length in img.shape[:2])
    if min(height, width) < 1 or jitter < 0:
        raise UserError(
            f'jitter={jitter} leaves no patch of an image of {img.shape[1]} x {img.shape[0]}: use '
            'less than a third of its side.'
        )
    corners = [
        np.array([row, column]) * (np.array(img.shape[:2]) // SIDE)
        for column in range(SIDE)
        for row in range(SIDE)
    ]
    starts = [corner + rng.integers(0, jitter, size=2, endpoint=True) for corner in corners]
    return [img[y : y + height, x : x + width] for y, x in starts]
