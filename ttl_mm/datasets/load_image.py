"""A file to an array inside a pipeline."""

from mmcv.transforms import BaseTransform

from ttl_mm.datasets.decode import MAX_PIXELS, decode_image
from ttl_mm.registry import TRANSFORMS


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """``img_path`` to ``img``, by the policy of :func:`ttl_mm.datasets.decode.decode_image`.

    A dataset that holds its images in memory may put this first too: an ``img`` stays as it is.

    Args:
        max_pixels: larger images are refused.
    """

    def __init__(self, max_pixels: int = MAX_PIXELS) -> None:
        self.max_pixels = max_pixels

    def transform(self, results: dict) -> dict:
        """Add ``img``, ``img_shape`` and ``ori_shape``."""
        if 'img' not in results:
            results['img'] = decode_image(results['img_path'], self.max_pixels)
        results['img_shape'] = results['ori_shape'] = results['img'].shape[:2]
        return results
