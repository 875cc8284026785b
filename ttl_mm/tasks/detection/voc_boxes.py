"""VOC annotations as detectron2 trains on them."""

from mmcv.transforms import BaseTransform

from ttl_mm.registry import TRANSFORMS


@TRANSFORMS.register_module()
class VOCTrainingBoxes(BaseTransform):
    """Include difficult objects, and let boxes end at the far edge of their last pixel.

    mmdet marks difficult objects as ignored, and its assigners then treat them as background.
    detectron2, used for all published results of this protocol, trains on them.

    mmdet's boxes end at the left edge of their last pixel (0-based inclusive corners), so a
    horizontal flip, which maps x to width - x, shifts them by one pixel. A box that ends at the
    right edge covers the flipped pixels exactly.

    Use it after ``LoadAnnotations`` and before any transform that moves boxes. Evaluate with
    ``VOCDetectionMetric(extents=True)``.
    """

    def transform(self, results: dict) -> dict:
        """Clear the ignore flags and move the far corners by one pixel."""
        results['gt_ignore_flags'][:] = False
        results['gt_bboxes'].tensor[:, 2:] += 1
        return results
