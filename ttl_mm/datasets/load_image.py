"""The transform that reads an image file."""

from mmcv.transforms import BaseTransform

from ttl_mm.datasets.decode import MAX_PIXELS, decode_image
from ttl_mm.registry import TRANSFORMS


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Decode ``img_path`` to ``img`` with :func:`ttl_mm.datasets.decode.decode_image`.

    An ``img`` that is there already, from a dataset in memory, stays as it is.

    Args:
        max_pixels: Larger images are refused.
    """

    def __init__(self, max_pixels: int = MAX_PIXELS) -> None:
        self.max_pixels = max_pixels

    def transform(self, results: dict) -> dict:
        """Add ``img``, ``img_shape`` and ``ori_shape``."""
        if 'img' not in results:
            results['img'] = decode_image(results['img_path'], self.max_pixels)
        results['img_shape'] = results['ori_shape'] = results['img'].shape[:2]
        return results
